// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/segment_norms.h"
#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/device/stream.h"
#include "belfry/optim/update_args.h"

namespace belfry {

// What the [optimizer] table holds when it does not say: the rates differ by orders of magnitude.
struct RuleDefaults {
  double lr = 0.1;
  double weight_decay = 0;
};

// An optimizer's element-wise update: p, state <- f(p, grad, state), in one pass or two. Knows
// nothing of towers, clipping or schedules. Immutable once configured; used by every tower's thread
// at once.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string name() const = 0;
  virtual void declare(Schema& schema) = 0;  // hyper-parameters, without lr and decay
  virtual std::vector<std::string> state_names() const = 0;  // f32, large as parameters, from 0
  virtual bool wants_squares() const { return false; }
  virtual RuleDefaults defaults() const { return {}; }
  // Layer-wise rates: the rate of each variable is scaled by |p| / |u|, u the rule's step before
  // the rate. Then measure() moves the state and takes the norms, one entry a segment, of
  // everything before update() makes the steps.
  virtual bool layerwise() const { return false; }
  virtual void measure(Stream&, const UpdateArgs&, SegmentNorms*) const {}
  virtual void update(Stream& stream, const UpdateArgs& args) const = 0;
  // The specification: one element in double, written independently of the kernel. `square` is 0
  // unless wants_squares().
  virtual void reference(double& param, double grad, double square, double* state,
                         const UpdateScalars& s) const = 0;
  // Of a layer-wise rule: the state moves on, and u is returned; reference() is the second pass.
  virtual double reference_direction(double /*param*/, double /*grad*/, double* /*state*/,
                                     const UpdateScalars&) const {
    return 0;
  }
};

struct RuleEntry {
  std::function<std::unique_ptr<Rule>()> make;
  std::string help;
};

}  // namespace belfry
