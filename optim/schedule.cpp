// SPDX-License-Identifier: MIT
#include "belfry/optim/schedule.h"

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {

double LearningRate::at(std::int64_t k, const Clock& clock) const {
  double rate = base;
  if (schedule) rate *= schedule->factor(k, clock);
  const Period rise = Period::parse(warmup, "warmup");
  const std::int64_t updates = rise.to_updates(clock.rows_per_epoch, clock.batch);
  if (k >= updates) return rate;
  const double part = static_cast<double>(k) / static_cast<double>(updates);
  return rate * (warmup_start + (1 - warmup_start) * part);
}

std::string LearningRate::fault(const Clock& clock) const {
  return schedule ? schedule->warmup_fault(Period::parse(warmup, "warmup"), clock) : "";
}

LearningRate& LearningRate::warm_up(std::string period, double start) {
  warmup = std::move(period);
  warmup_start = start;
  Schema schema;
  declare_warmup(schema, *this);
  schema.validate("schedule");
  return *this;
}

void declare_warmup(Schema& schema, LearningRate& lr) {
  schema.key("warmup", lr.warmup,
             {.period = true, .help = "length of the linear rise to the base rate; 0u: none"});
  schema.key("warmup_start", lr.warmup_start,
             {.min = 0, .max = 1, .help = "first update's fraction of the base rate"});
}

std::string positive_period_fault(const std::string& key, const std::string& period) {
  if (period.empty()) return "'" + key + "' is required: a length such as 500u, 10e or 1Mrows";
  if (Period::parse(period, key).value > 0) return "";
  return "'" + key + "': found '" + period + "', expected a length above zero";
}

bool shorter(const Period& length, const Period& other, const Clock& clock) {
  if (length.unit == other.unit) return length.value < other.value;
  const auto updates = [&clock](const Period& p) {
    return p.to_updates(clock.rows_per_epoch, clock.batch);
  };
  return clock.rows_per_epoch > 0 && updates(length) < updates(other);
}

std::string fall_fault(const std::string& over, const Period& warmup, const Clock& clock) {
  if (over.empty() || !shorter(Period::parse(over, "over"), warmup, clock)) return "";
  return "over = \"" + over + "\" ends before the warm-up of \"" + to_string(warmup) +
         "\" that it includes";
}

LearningRate make_rate(double base, std::shared_ptr<Schedule> schedule) {
  Schema schema;
  schedule->declare(schema);
  schema.validate("schedule '" + schedule->name() + "'");
  LearningRate out(base);
  out.schedule = std::move(schedule);
  return out;
}

}  // namespace belfry
