// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/core/document.h"
#include "belfry/core/registry.h"
#include "belfry/optim/optimizer.h"

namespace belfry {

// Reads the tables [optimizer] and [schedule]: the keys of Optimizer and LearningRate, and those of
// the rule and the schedule they name. Faults are recorded in the document; build() may be called
// once the document's finish() has passed. Its result is validated.
class OptimizerLoader {
 public:
  OptimizerLoader(Document& document, const Registry& registry);
  Optimizer build() const;

 private:
  struct Tables;  // what the document's schemas are bound to
  std::shared_ptr<Tables> tables_;
};

}  // namespace belfry
