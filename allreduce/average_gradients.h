// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/allreduce/missing.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/autodiff/variable.h"
#include "belfry/device/communicator.h"

namespace belfry {

// A (gradient, variable) pair of one tower; an undefined gradient is an absent one.
struct GradientPair {
  Tensor gradient;
  std::string variable;
  GradientPair(Tensor g, std::string name) : gradient(std::move(g)), variable(std::move(name)) {}
  GradientPair(Tensor g, const Variable& v) : gradient(std::move(g)), variable(v.name()) {}
};
using GradientList = std::vector<GradientPair>;

struct AverageOptions {
  bool include_square = false;
  std::vector<double> weights{};  // one a tower, >= 0, normalised; none: the plain mean
  MissingOnSome none = MissingOnSome::reject;
};

struct AveragedGradients {
  GradientList mean;                 // the first list's order, without the skipped
  GradientList square;               // the same variables; empty unless asked for
  std::vector<std::string> skipped;  // absent on every tower
};

// Averages the towers' gradients of each variable, paired by name, on the first tower's device:
// mean = sum w_t g_t, square = sum w_t g_t^2 with weights adding to 1, in a binary tree over
// towers. f16, bf16 and f32 are added in f32 and f64 in f64; the mean has the input's type, the
// square f32 (f64). A tower of weight 0 counts as having no rows. One list is returned as it is,
// bit for bit. The mean of squares depends on how the rows are split over towers, by nature.
//
// Absent on all towers: skipped. Absent on some: GradientError naming each variable and tower, or
// counted as 0. Also GradientError: no lists, no gradient at all, a variable in some lists only or
// twice in one, unequal shapes or types. NumericError: all weights 0. Waits for the towers'
// devices.
AveragedGradients average_gradients(const std::vector<GradientList>& towers,
                                    const AverageOptions& options = {});

// The same over the lists of all members of a group, in their order: each member passes its own,
// perhaps none, and its end of the group, whose device is `device`. Collective; every member gets
// the whole result on its device, the same bits as one call with all lists. Weights: one a list of
// its own from every member, or none from any. GradientError and NumericError are thrown alike by
// all members, and the group may go on; another error of a member is a CommError of the others.
AveragedGradients average_gradients(const std::vector<GradientList>& towers, Device& device,
                                    Communicator& communicator, Control& control,
                                    const AverageOptions& options = {});

}  // namespace belfry
