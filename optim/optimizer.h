// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belfry/allreduce/missing.h"
#include "belfry/optim/rule.h"
#include "belfry/optim/schedule.h"

namespace belfry {

enum class Statistics : std::uint8_t { none, norms, squares };
enum class Clip : std::uint8_t { none, value, global_norm };

// repeatable: the same layout gives the same bits. strict: the rows are cut into virtual shards,
// each a backward pass of its own, so any number of towers gives the same bits. fast: the
// transport's own sum; threads have none, so there it is repeatable.
enum class ReduceMode : std::uint8_t { repeatable, strict, fast };

// How averaged gradients become an update: a rule and what surrounds it. A value: copy it, set
// fields or chain the setters. Patterns are globs over variable names ("*.bias"); a later one wins.
struct Optimizer {
  std::shared_ptr<const Rule> rule;
  LearningRate lr;
  double weight_decay = 0;            // decoupled, in the rule, after clipping
  std::vector<std::string> no_decay;  // names left out of weight_decay and l2
  double l2 = 0;                      // adds l2 * theta to the mean, l2/2 |theta|^2 to the loss
  Clip clip = Clip::none;
  double clip_limit = 0;
  std::vector<std::pair<std::string, double>> multipliers;  // of the averaged gradient
  std::vector<std::string> frozen;                          // never differentiated, never changed
  Statistics statistics = Statistics::none;
  bool guard = true;  // non-finite gradients refuse the update
  double ema = 0;     // decay of the averaged parameters; 0: off
  MissingOnSome missing = MissingOnSome::reject;
  std::int64_t accumulate = 1;  // micro-batches a tower (strict: a virtual shard) and update
  ReduceMode reduce = ReduceMode::repeatable;
  std::int64_t virtual_shards = 8;  // in strict mode: the most towers that give the same bits

  Optimizer& clip_global_norm(double limit);
  Optimizer& clip_value(double limit);
  Optimizer& decay(double weight_decay_value, std::vector<std::string> except = {});
  Optimizer& with_l2(double value);
  Optimizer& multiplier(std::string pattern, double factor);
  Optimizer& freeze(std::string pattern);
  Optimizer& with_statistics(Statistics s);
  Optimizer& with_ema(double decay);
  Optimizer& accumulating(std::int64_t k);
  Optimizer& strict(std::int64_t shards = 8);

  double multiplier_of(const std::string& variable) const;  // 1 unless matched
  bool frozen_variable(const std::string& variable) const;  // by pattern, or |multiplier| < 1e-6
  double decay_of(const std::string& variable) const;
  double l2_of(const std::string& variable) const;
  bool needs_squares() const;                     // statistics or rule
  std::int64_t units(std::int64_t towers) const;  // backward passes of an update with rows enough
  void validate() const;                          // throws ConfigError
};

bool glob_match(std::string_view pattern, std::string_view text);  // * and ?

struct SgdOptions {
  LearningRate lr = 0.1;
};
struct MomentumOptions {
  LearningRate lr = 0.1;
  double momentum = 0.9;
};
struct AdamOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::string second_moment = "mean";  // "towers": the mean of the units' squares goes into v
};
struct AdamWOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};
struct RmspropOptions {
  LearningRate lr = 1e-2;
  double alpha = 0.99, eps = 1e-8, momentum = 0;
};
Optimizer sgd(const SgdOptions& o = {});
Optimizer momentum(const MomentumOptions& o = {});
Optimizer nesterov(const MomentumOptions& o = {});
Optimizer adam(const AdamOptions& o = {});
Optimizer adamw(const AdamWOptions& o = {});
Optimizer rmsprop(const RmspropOptions& o = {});

}  // namespace belfry
