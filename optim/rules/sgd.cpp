// SPDX-License-Identifier: MIT
#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/sgd.kernel.h"

namespace belfry {
namespace {

class Sgd : public Rule {
 public:
  std::string name() const override { return "sgd"; }
  void declare(Schema&) override {}
  std::vector<std::string> state_names() const override { return {}; }
  void update(Stream& stream, const UpdateArgs& a) const override {
    launch_update(stream, a, SgdUpdate{});
  }
  void reference(double& param, double grad, double, double*,
                 const UpdateScalars& s) const override {
    const double lr = s.lr;
    param -= lr * s.decay * param;
    param -= lr * s.clip * grad;
  }
};

}  // namespace

Optimizer sgd(const SgdOptions& o) { return make_optimizer(std::make_shared<Sgd>(), o.lr); }

void register_rule_sgd(Registry& registry) {
  registry.table<RuleEntry>().add(
      "sgd", {[] { return std::make_unique<Sgd>(); }, "p -= lr g: no state, for convex problems"});
}

}  // namespace belfry
