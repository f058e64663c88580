// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "belfry/optim/rule.h"

namespace belfry::test {

// The rule as made and, for each key with choices, once with each choice.
inline std::vector<std::unique_ptr<Rule>> rule_variants(const RuleEntry& entry) {
  std::vector<std::unique_ptr<Rule>> out;
  out.push_back(entry.make());
  Schema schema;
  out.front()->declare(schema);
  for (std::size_t k = 0; k < schema.keys().size(); ++k)
    for (const std::string& choice : schema.keys()[k].options.choices) {
      out.push_back(entry.make());
      Schema own;
      out.back()->declare(own);
      *std::get<std::string*>(own.keys()[k].target) = choice;
    }
  return out;
}

}  // namespace belfry::test
