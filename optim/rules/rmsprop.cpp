// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/rmsprop.kernel.h"

namespace belfry {
namespace {

class Rmsprop : public Rule {
 public:
  double alpha = 0.99, eps = 1e-8, momentum = 0;

  std::string name() const override { return "rmsprop"; }
  RuleDefaults defaults() const override { return {.lr = 1e-2}; }
  void declare(Schema& schema) override {
    schema.key("alpha", alpha,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the mean square"});
    schema.key("eps", eps, {.min = 1e-30, .max = 1, .help = "added to the root"});
    schema.key("momentum", momentum,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the velocity kept"});
  }
  std::vector<std::string> state_names() const override {
    if (momentum > 0) return {"square", "velocity"};
    return {"square"};
  }
  void update(Stream& stream, const UpdateArgs& a) const override {
    const float e = static_cast<float>(eps), mu = static_cast<float>(momentum);
    if (momentum > 0)
      launch_update(stream, a, RmspropUpdate<true>{alpha, mu, e});
    else
      launch_update(stream, a, RmspropUpdate<false>{alpha, mu, e});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr, g = grad * s.clip;
    param -= lr * s.decay * param;
    state[0] += (1 - alpha) * (g * g - state[0]);
    double step = g / (std::sqrt(state[0]) + eps);
    if (momentum > 0) step = state[1] = momentum * state[1] + step;
    param -= lr * step;
  }
};

}  // namespace

Optimizer rmsprop(const RmspropOptions& o) {
  auto rule = std::make_shared<Rmsprop>();
  rule->alpha = o.alpha;
  rule->eps = o.eps;
  rule->momentum = o.momentum;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_rmsprop(Registry& registry) {
  registry.table<RuleEntry>().add(
      "rmsprop", {[] { return std::make_unique<Rmsprop>(); },
                  "p -= lr g / (sqrt(mean square) + eps), with optional momentum, as in PyTorch"});
}

}  // namespace belfry
