// SPDX-License-Identifier: MIT
#include "belfry/optim/rules/lion.h"

#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/lion.kernel.h"

namespace belfry {
namespace {

class Lion : public Rule {
 public:
  double beta1 = 0.9, beta2 = 0.99;

  std::string name() const override { return "lion"; }
  RuleDefaults defaults() const override { return {.lr = 1e-4}; }
  void declare(Schema& schema) override {
    schema.key(
        "beta1", beta1,
        {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the mean in the step"});
    schema.key("beta2", beta2,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the mean gradient"});
  }
  std::vector<std::string> state_names() const override { return {"mean"}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, LionUpdate{beta1, beta2});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr, g = grad * s.clip;
    const double way = state[0] + (1 - beta1) * (g - state[0]);
    state[0] += (1 - beta2) * (g - state[0]);
    param -= lr * s.decay * param;
    if (way != 0) param -= way > 0 ? lr : -lr;
  }
};

}  // namespace

Optimizer lion(const LionOptions& o) {
  auto rule = std::make_shared<Lion>();
  rule->beta1 = o.beta1;
  rule->beta2 = o.beta2;
  return make_optimizer(std::move(rule), o.lr).decay(o.weight_decay);
}

void register_rule_lion(Registry& registry) {
  registry.table<RuleEntry>().add(
      "lion", {[] { return std::make_unique<Lion>(); },
               "p -= lr sign(mean and gradient): one state; rates 3 to 10 times below adamw's"});
}

}  // namespace belfry
