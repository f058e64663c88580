// SPDX-License-Identifier: MIT
#include "belfry/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "belfry/core/error.h"
#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

// Below this a multiplier means "do not train": the gradient is not even computed.
constexpr double kFrozenBelow = 1e-6;

bool any_match(const std::vector<std::string>& patterns, const std::string& name) {
  for (const std::string& pattern : patterns)
    if (glob_match(pattern, name)) return true;
  return false;
}

std::string clip_fault(const Optimizer& o) {
  if (o.clip == Clip::none && o.clip_limit != 0)
    return "clip_limit = " + fmt::format("{}", o.clip_limit) +
           " has no effect: set clip to 'value' or 'global_norm'";
  if (o.clip != Clip::none && !(o.clip_limit > 0))
    return std::string("clip = \"") + (o.clip == Clip::value ? "value" : "global_norm") +
           "\" needs clip_limit: found " + fmt::format("{}", o.clip_limit) +
           ", expected a number > 0";
  return "";
}

std::string decay_fault(const Optimizer& o) {
  const double shrink = o.lr.base * o.weight_decay;
  if (shrink < 1 || (o.rule && o.rule->layerwise())) return "";
  return "lr * weight_decay: found " + fmt::format("{}", shrink) +
         ", expected below 1, or each update turns the sign of the parameters";
}

std::string multiplier_fault(const Optimizer& o) {
  for (const auto& [pattern, factor] : o.multipliers) {
    if (pattern.empty()) return "multipliers: a pattern is empty";
    if (!(std::abs(factor) <= 1e6))
      return "multipliers: '" + pattern + "': found " + fmt::format("{}", factor) +
             ", expected a finite number in [-1e6, 1e6]";
  }
  return "";
}

// In strict mode each is a gradient of its own with a place in every tower's tables.
std::string leaves_fault(const Optimizer& o) {
  constexpr std::int64_t kMost = 65536;
  if (o.reduce != ReduceMode::strict || o.virtual_shards * o.accumulate <= kMost) return {};
  return "strict: virtual_shards x accumulate is " +
         std::to_string(o.virtual_shards * o.accumulate) + ", at most " + std::to_string(kMost);
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = pattern.npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;  // the last star takes one letter more
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Optimizer& Optimizer::clip_global_norm(double limit) {
  clip = Clip::global_norm;
  clip_limit = limit;
  return *this;
}
Optimizer& Optimizer::clip_value(double limit) {
  clip = Clip::value;
  clip_limit = limit;
  return *this;
}
Optimizer& Optimizer::decay(double weight_decay_value, std::vector<std::string> except) {
  weight_decay = weight_decay_value;
  no_decay = std::move(except);
  return *this;
}
Optimizer& Optimizer::with_l2(double value) {
  l2 = value;
  return *this;
}
Optimizer& Optimizer::multiplier(std::string pattern, double factor) {
  multipliers.emplace_back(std::move(pattern), factor);
  return *this;
}
Optimizer& Optimizer::freeze(std::string pattern) {
  frozen.push_back(std::move(pattern));
  return *this;
}
Optimizer& Optimizer::with_statistics(Statistics s) {
  statistics = s;
  return *this;
}
Optimizer& Optimizer::with_ema(double decay_value) {
  ema = decay_value;
  return *this;
}
Optimizer& Optimizer::accumulating(std::int64_t k) {
  accumulate = k;
  return *this;
}
Optimizer& Optimizer::strict(std::int64_t shards) {
  reduce = ReduceMode::strict;
  virtual_shards = shards;
  return *this;
}

double Optimizer::multiplier_of(const std::string& variable) const {
  double out = 1;
  for (const auto& [pattern, factor] : multipliers)
    if (glob_match(pattern, variable)) out = factor;
  return out;
}
bool Optimizer::frozen_variable(const std::string& variable) const {
  return any_match(frozen, variable) || std::abs(multiplier_of(variable)) < kFrozenBelow;
}
double Optimizer::decay_of(const std::string& variable) const {
  return any_match(no_decay, variable) ? 0 : weight_decay;
}
double Optimizer::l2_of(const std::string& variable) const {
  return any_match(no_decay, variable) ? 0 : l2;
}
std::int64_t Optimizer::units(std::int64_t towers) const {
  return (reduce == ReduceMode::strict ? virtual_shards : towers) * accumulate;
}
bool Optimizer::needs_squares() const {
  return statistics == Statistics::squares || (rule && rule->wants_squares());
}

void Optimizer::validate() const {
  if (!rule)
    throw ConfigError(ErrorText{.what = "the optimizer has no rule",
                                .fix = "start from one, e.g. momentum({.lr = 0.1})"});
  Optimizer copy = *this;
  Schema values, warmup;
  declare_values(values, copy);
  values.validate("optimizer '" + rule->name() + "'");
  declare_warmup(warmup, copy.lr);
  warmup.validate("schedule");
  if (const std::string fault = lr.fault({}); !fault.empty()) throw ConfigError(fault);
}

void declare_values(Schema& schema, Optimizer& o) {
  schema.key("lr", o.lr.base,
             {.min = 0, .max = 1e6, .exclusive_min = true, .help = "base learning rate"});
  schema.key("weight_decay", o.weight_decay,
             {.min = 0, .max = 1e6, .help = "decoupled: p *= 1 - lr weight_decay, after clipping"});
  schema.key("no_decay", o.no_decay, {.help = "variables without weight_decay and l2, as globs"});
  schema.key("l2", o.l2, {.min = 0, .max = 1e6, .help = "adds l2/2 |theta|^2 to the loss"});
  schema.key("clip_limit", o.clip_limit, {.min = 0, .max = 1e30, .help = "largest value or norm"});
  schema.key("freeze", o.frozen, {.help = "variables that are not trained, as globs"});
  schema.key("guard", o.guard, {.help = "refuse updates with non-finite gradients"});
  schema.key("ema", o.ema,
             {.min = 0, .max = 1, .exclusive_max = true, .help = "decay of averaged parameters"});
  schema.key("accumulate", o.accumulate,
             {.min = 1, .max = 1e6, .help = "micro-batches a tower (strict: a virtual shard)"});
  schema.key("virtual_shards", o.virtual_shards,
             {.min = 1, .max = 64, .help = "strict: parts of a batch; the most towers"});
  schema.rule([&o] { return leaves_fault(o); });
  schema.rule([&o] { return clip_fault(o); });
  schema.rule([&o] { return decay_fault(o); });
  schema.rule([&o] { return multiplier_fault(o); });
}

Optimizer make_optimizer(std::shared_ptr<Rule> rule, const LearningRate& lr) {
  Schema schema;
  rule->declare(schema);
  schema.validate("optimizer '" + rule->name() + "'");
  Optimizer out;
  out.weight_decay = rule->defaults().weight_decay;
  out.rule = std::move(rule);
  out.lr = lr;
  return out;
}

}  // namespace belfry
