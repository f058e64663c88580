// SPDX-License-Identifier: MIT
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/adam_internal.h"

namespace belfry {

Optimizer adamw(const AdamWOptions& o) {
  auto rule = std::make_shared<AdamW>();
  rule->beta1 = o.beta1;
  rule->beta2 = o.beta2;
  rule->eps = o.eps;
  return make_optimizer(std::move(rule), o.lr).decay(o.weight_decay);
}

void register_rule_adamw(Registry& registry) {
  registry.table<RuleEntry>().add("adamw", {[] { return std::make_unique<AdamW>(); },
                                            "Adam with a weight_decay of 0.01 unless given"});
}

}  // namespace belfry
