// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/core/error.h"
#include "belfry/device/kernel.h"
#include "belfry/optim/optimizer_internal.h"
#include "belfry/optim/rules/adam.kernel.h"
#include "belfry/optim/rules/adam_internal.h"

namespace belfry {

void Adam::declare(Schema& schema) {
  schema.key("beta1", beta1,
             {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the mean gradient"});
  schema.key("beta2", beta2,
             {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of the second moment"});
  schema.key("eps", eps, {.min = 1e-30, .max = 1, .help = "added to the root"});
  schema.key("second_moment", second_moment,
             {.choices = {"mean", "towers"},
              .help = "square of the mean gradient, or mean over the towers of their squares: the "
                      "step then does not grow with the number of towers"});
}

void Adam::update(Stream& stream, const UpdateArgs& a) const {
  if (!wants_squares()) {
    launch_update(stream, a, AdamUpdate<false>{beta1, beta2, static_cast<float>(eps)});
    return;
  }
  if (a.square == nullptr && a.size != 0)
    throw GradientError(ErrorText{.what = "adam with second_moment = 'towers'",
                                  .found = "an update without the mean of squares",
                                  .expected = "squares of the units' gradients"});
  launch_update(stream, a, AdamUpdate<true>{beta1, beta2, static_cast<float>(eps)});
}

void Adam::reference(double& param, double grad, double square, double* state,
                     const UpdateScalars& s) const {
  const double lr = s.lr, clip = s.clip, t = s.step;
  const double second = wants_squares() ? square : grad * grad;
  param -= lr * s.decay * param;
  state[0] += (1 - beta1) * (grad * clip - state[0]);
  state[1] += (1 - beta2) * (second * clip * clip - state[1]);
  const double unbiased_mean = state[0] / (1 - std::pow(beta1, t));
  const double unbiased_square = state[1] / (1 - std::pow(beta2, t));
  param -= lr * unbiased_mean / (std::sqrt(unbiased_square) + eps);
}

Optimizer adam(const AdamOptions& o) {
  auto rule = std::make_shared<Adam>();
  rule->beta1 = o.beta1;
  rule->beta2 = o.beta2;
  rule->eps = o.eps;
  rule->second_moment = o.second_moment;
  return make_optimizer(std::move(rule), o.lr);
}

void register_rule_adam(Registry& registry) {
  registry.table<RuleEntry>().add(
      "adam", {[] { return std::make_unique<Adam>(); },
               "Adam with bias correction counted per variable; weight_decay is decoupled"});
}

}  // namespace belfry
