// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/bench/common/network_model.h"

namespace belfry::bench {

// The buckets that the engine would exchange of a model: "mlp" (784-256-128-10), "lenet" (28 x 28),
// "resnet50" (224 x 224, 1,000 classes) or "gpt" (GPT-2's smallest: 124,439,808 parameters, 1,024
// positions), by its variables, FlatIndex and plan_buckets(). Gradients complete in the order of
// the flat index, each after as much of backward as its variable has multiplications. Nothing is
// allocated. Throws ConfigError for another name.
NetPlan net_plan(const std::string& model);

}  // namespace belfry::bench
