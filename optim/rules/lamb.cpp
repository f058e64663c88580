// SPDX-License-Identifier: MIT
#include "belfry/optim/rules/lamb.h"

#include <cmath>

#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/lamb.kernel.h"

namespace belfry {
namespace {

class Lamb : public Rule {
 public:
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6;

  std::string name() const override { return "lamb"; }
  RuleDefaults defaults() const override { return {.lr = 1e-3, .weight_decay = 0.01}; }
  void declare(Schema& schema) override {
    schema.key("beta1", beta1,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the mean gradient"});
    schema.key("beta2", beta2,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the second moment"});
    schema.key("eps", eps, {.min = 1e-30, .max = 1, .help = "added to the root"});
  }
  std::vector<std::string> state_names() const override { return {"mean", "square"}; }
  bool layerwise() const override { return true; }
  void measure(Stream& stream, const UpdateArgs& a, SegmentNorms* norms) const override {
    launch_rows(stream, a.rows, MeasureSegments<LambUpdate>{a, norms, kernel()});
  }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, kernel());
  }
  double reference_direction(double param, double grad, double* state,
                             const UpdateScalars& s) const override {
    const double g = grad * static_cast<double>(s.clip);
    state[0] = beta1 * state[0] + (1 - beta1) * g;
    state[1] = beta2 * state[1] + (1 - beta2) * g * g;
    return direction(param, state, s);
  }
  void reference(double& param, double, double, double* state,
                 const UpdateScalars& s) const override {
    param -= static_cast<double>(s.lr) * direction(param, state, s);
  }

 private:
  LambUpdate kernel() const { return {beta1, beta2, static_cast<float>(eps)}; }
  double direction(double param, const double* state, const UpdateScalars& s) const {
    const double t = s.step, mean = state[0] / (1 - std::pow(beta1, t)),
                 square = state[1] / (1 - std::pow(beta2, t));
    return mean / (std::sqrt(square) + eps) + static_cast<double>(s.decay) * param;
  }
};

}  // namespace

Optimizer lamb(const LambOptions& o) {
  auto rule = std::make_shared<Lamb>();
  rule->beta1 = o.beta1;
  rule->beta2 = o.beta2;
  rule->eps = o.eps;
  return make_optimizer(std::move(rule), o.lr).decay(o.weight_decay);
}

void register_rule_lamb(Registry& registry) {
  registry.table<RuleEntry>().add(
      "lamb", {[] { return std::make_unique<Lamb>(); },
               "Adam's direction, as long as each variable's norm: for very large batches"});
}

}  // namespace belfry
