// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "belfry/autodiff/state_term.kernel.h"
#include "belfry/autodiff/variable.h"

namespace belfry {

// A named tensor of a module that is saved but not trained. In a training pass a module contributes
// to it; the new value is written with the update it belongs to, and a refused update leaves it
// alone. Declares shape and start only; memory is bound by whoever owns the group (bind()). Pinned:
// neither copied nor moved. One thread at a time.
class ModuleState {
 public:
  // One of the kinds mean, sum and equal; else ConfigError.
  ModuleState(Module& parent, const std::string& name, const Shape& shape, StateKind kind,
              double start = 0);
  // Pooled: moving averages of mean and variance, new = (1 - momentum) old + momentum seen. The
  // variance is the unbiased one, as PyTorch's; it stays where one value was seen. They start at 0
  // and 1.
  ModuleState(Module& parent, const std::string& mean, const std::string& variance,
              const Shape& shape, double momentum);
  ~ModuleState();
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;

  const std::string& name() const noexcept { return names_[0]; }         // "bn1.running_mean"
  const std::string& second_name() const noexcept { return names_[1]; }  // pooled; else ""
  const Shape& shape() const noexcept { return shape_; }                 // of each
  StateKind kind() const noexcept { return kind_; }
  double momentum() const noexcept { return momentum_; }
  double start(int part) const noexcept { return part == 0 ? start_ : 1; }

  // As the last update left them. GradientError before bind().
  const Tensor& value() const;
  const Tensor& variance() const;  // pooled

  // What this pass contributes: an f32 tensor of the state's shape. Mean: counts as much as the
  // pass has rows. Once a pass and module, or they are merged like contributions of several passes.
  void contribute(const Tensor& value) const;
  // Pooled: [2, shape]: the mean of `count` values, and the sum of squared differences from it.
  void contribute(const Tensor& moments, std::int64_t count) const;

  // Gives it memory: its values, those of the variance where pooled, and the terms of the passes to
  // come, on `device`; null terms: contributions are dropped.
  void bind(const Tensor& value, const Tensor& second, StateTerm* terms);

 private:
  friend class Module;
  void add(const Tensor& value, const float* second, float weight) const;
  Module* parent_ = nullptr;  // null when it is gone
  std::string names_[2];
  Shape shape_;
  StateKind kind_;
  double start_ = 0, momentum_ = 0;
  Tensor values_[2];
  StateTerm* terms_ = nullptr;
};

}  // namespace belfry
