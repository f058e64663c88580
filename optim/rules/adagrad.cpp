// SPDX-License-Identifier: MIT
#include "belfry/optim/rules/adagrad.h"

#include <cmath>

#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/adagrad.kernel.h"

namespace belfry {
namespace {

class Adagrad : public Rule {
 public:
  double initial = 0, eps = 1e-10;

  std::string name() const override { return "adagrad"; }
  RuleDefaults defaults() const override { return {.lr = 1e-2}; }
  void declare(Schema& schema) override {
    schema.key("initial", initial, {.min = 0, .max = 1e6, .help = "start of the sum of squares"});
    schema.key("eps", eps, {.min = 1e-30, .max = 1, .help = "added to the root"});
  }
  std::vector<std::string> state_names() const override { return {"square"}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, AdagradUpdate{static_cast<float>(initial), static_cast<float>(eps)});
  }
  void reference(double& param, double grad, double, double* state,
                 const UpdateScalars& s) const override {
    const double lr = s.lr, g = grad * s.clip;
    state[0] += g * g;
    param -= lr * s.decay * param;
    param -= lr / (std::sqrt(initial + state[0]) + eps) * g;
  }
};

}  // namespace

Optimizer adagrad(const AdagradOptions& o) {
  auto rule = std::make_shared<Adagrad>();
  rule->initial = o.initial;
  rule->eps = o.eps;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_adagrad(Registry& registry) {
  registry.table<RuleEntry>().add(
      "adagrad",
      {[] { return std::make_unique<Adagrad>(); },
       "p -= lr g / (sqrt(sum of squares) + eps): rates that only fall, for rare inputs"});
}

}  // namespace belfry
