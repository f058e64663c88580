// SPDX-License-Identifier: MIT
#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/nesterov.kernel.h"

namespace belfry {
namespace {

class Nesterov : public Rule {
 public:
  double momentum = 0.9;

  std::string name() const override { return "nesterov"; }
  void declare(Schema& schema) override {
    schema.key("momentum", momentum,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the velocity kept"});
  }
  std::vector<std::string> state_names() const override { return {"velocity"}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, NesterovUpdate{static_cast<float>(momentum)});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr;
    param -= lr * s.decay * param;
    state[0] = state[0] * momentum + grad * s.clip;
    // The step that momentum would take next, taken now.
    param -= lr * grad * s.clip;
    param -= lr * momentum * state[0];
  }
};

}  // namespace

Optimizer nesterov(const MomentumOptions& o) {
  auto rule = std::make_shared<Nesterov>();
  rule->momentum = o.momentum;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_nesterov(Registry& registry) {
  registry.table<RuleEntry>().add("nesterov",
                                  {[] { return std::make_unique<Nesterov>(); },
                                   "v = momentum v + g, p -= lr (g + momentum v), as in PyTorch"});
}

}  // namespace belfry
