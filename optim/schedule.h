// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/core/units.h"

namespace belfry {

// What turns epochs and rows into updates.
struct Clock {
  std::int64_t rows_per_epoch = 0;  // 0: unknown, "e" units are a ConfigError
  std::int64_t batch = 0;           // rows of one update
};

// The shape of a learning rate over attempted updates: a factor of the base rate. Immutable once
// configured.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::string name() const = 0;
  virtual void declare(Schema& schema) = 0;
  virtual double factor(std::int64_t k, const Clock& clock) const = 0;  // k counts from 0
  // What is wrong with such a warm-up in front of it, as far as the clock can tell; "" for nothing.
  virtual std::string warmup_fault(const Period& /*warmup*/, const Clock&) const { return ""; }
  // What is wrong in a run of so many updates; "" for nothing.
  virtual std::string run_fault(std::int64_t /*updates*/, const Clock&) const { return ""; }
};

struct ScheduleEntry {
  std::function<std::unique_ptr<Schedule>()> make;
  std::string help;
};

// lr(k) = base * schedule(k) * warm-up(k). k is the number of updates attempted before, whatever
// the towers and micro-batches of each: the first update has k = 0. Warm-up rises linearly from
// `warmup_start` at k = 0 to 1 at k = warmup, so the first update moves. A plain number is a
// constant rate.
struct LearningRate {
  double base = 0.1;
  std::shared_ptr<const Schedule> schedule;  // null: constant
  std::string warmup = "0u";
  double warmup_start = 0.1;
  LearningRate() = default;
  LearningRate(double constant) : base(constant) {}  // NOLINT: {.lr = 0.1}
  double at(std::int64_t k, const Clock& clock) const;
  std::string fault(const Clock& clock) const;  // of schedule and warm-up together; "" for none
  LearningRate& warm_up(std::string period, double start = 0.1);
};

LearningRate constant(double base);  // each throws ConfigError for a value out of range
LearningRate step(double base, std::string every, double gamma = 0.1);
// `floor` and `end` are fractions of the base rate, reached after `over` and kept.
LearningRate cosine(double base, std::string over, double floor = 0.0);
LearningRate linear(double base, std::string over, double end = 0.0);

}  // namespace belfry
