// SPDX-License-Identifier: MIT
#include "belfry/optim/rules/adadelta.h"

#include <cmath>

#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/adadelta.kernel.h"

namespace belfry {
namespace {

class Adadelta : public Rule {
 public:
  double rho = 0.9, eps = 1e-6;

  std::string name() const override { return "adadelta"; }
  RuleDefaults defaults() const override { return {.lr = 1}; }
  void declare(Schema& schema) override {
    schema.key("rho", rho,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of both mean squares"});
    schema.key("eps", eps,
               {.min = 1e-30, .max = 1, .help = "added to both mean squares: sets the first step"});
  }
  std::vector<std::string> state_names() const override { return {"square", "moved"}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, AdadeltaUpdate{rho, static_cast<float>(eps)});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr, g = grad * s.clip;
    state[0] += (1 - rho) * (g * g - state[0]);
    const double step = std::sqrt((state[1] + eps) / (state[0] + eps)) * g;
    state[1] += (1 - rho) * (step * step - state[1]);
    param -= lr * s.decay * param;
    param -= lr * step;
  }
};

}  // namespace

Optimizer adadelta(const AdadeltaOptions& o) {
  auto rule = std::make_shared<Adadelta>();
  rule->rho = o.rho;
  rule->eps = o.eps;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_adadelta(Registry& registry) {
  registry.table<RuleEntry>().add(
      "adadelta", {[] { return std::make_unique<Adadelta>(); },
                   "steps as large as the root of the mean square of those before"});
}

}  // namespace belfry
