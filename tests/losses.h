// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/data/loader.h"
#include "belfry/towers/group.h"
#include "belfry/towers/model.h"

namespace belfry::test {

// Steps a group of classifiers on every batch there is, by cross-entropy on fields `field` and
// "label"; appends each update's loss as soon as it is there.
inline void step_all(TowerGroupBase& group, Loader& loader, const std::string& field,
                     std::vector<double>& losses) {
  const LossFn loss = [field](Module& module, const Batch& batch, Step&) {
    return cross_entropy(static_cast<Classifier&>(module).forward(batch[field]), batch["label"]);
  };
  Batch batch;
  while (loader.next(batch)) losses.push_back(group.step(batch, loss).loss());
}

}  // namespace belfry::test
