// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/optim/rule.h"

namespace belfry {

// Adam and AdamW: the same update, for decay is decoupled in every rule; they differ in what is
// assumed when nothing is said.
class Adam : public Rule {
 public:
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::string second_moment = "mean";

  std::string name() const override { return "adam"; }
  RuleDefaults defaults() const override { return {.lr = 1e-3}; }
  void declare(Schema& schema) override;
  std::vector<std::string> state_names() const override { return {"mean", "square"}; }
  bool wants_squares() const override { return second_moment == "towers"; }
  void update(Stream& stream, const UpdateArgs& args) const override;
  void reference(double& param, double grad, double square, double* state,
                 const UpdateScalars& s) const override;
};

class AdamW : public Adam {
 public:
  std::string name() const override { return "adamw"; }
  RuleDefaults defaults() const override { return {.lr = 1e-3, .weight_decay = 0.01}; }
};

}  // namespace belfry
