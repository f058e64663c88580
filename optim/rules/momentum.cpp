// SPDX-License-Identifier: MIT
#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/momentum.kernel.h"

namespace belfry {
namespace {

class Momentum : public Rule {
 public:
  double momentum = 0.9;

  std::string name() const override { return "momentum"; }
  void declare(Schema& schema) override {
    schema.key("momentum", momentum,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the velocity kept"});
  }
  std::vector<std::string> state_names() const override { return {"velocity"}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, MomentumUpdate{static_cast<float>(momentum)});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr;
    param -= lr * s.decay * param;
    state[0] = state[0] * momentum + grad * s.clip;
    param -= lr * state[0];
  }
};

}  // namespace

Optimizer momentum(const MomentumOptions& o) {
  auto rule = std::make_shared<Momentum>();
  rule->momentum = o.momentum;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_momentum(Registry& registry) {
  registry.table<RuleEntry>().add(
      "momentum", {[] { return std::make_unique<Momentum>(); },
                   "v = momentum v + g, p -= lr v: the velocity is kept without the rate, so a new "
                   "rate acts on all of it at once"});
}

}  // namespace belfry
