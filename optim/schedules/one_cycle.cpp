// SPDX-License-Identifier: MIT
#include "belfry/optim/schedules/one_cycle.h"

#include <cmath>
#include <numbers>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

double half_cosine(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

class OneCycleSchedule : public Schedule {
 public:
  std::string over;
  OneCycleOptions options;

  std::string name() const override { return "one_cycle"; }
  void declare(Schema& schema) override {
    schema.key("over", over, {.period = true, .help = "length of rise and fall, the end after it"});
    schema.key("rise", options.rise,
               {.min = 0, .max = 1, .exclusive_max = true, .help = "share of it that rises"});
    schema.key("start", options.start,
               {.min = 0, .max = 1, .help = "first rate, as a fraction of the base rate"});
    schema.key("end", options.end,
               {.min = 0, .max = 1, .help = "end, as a fraction of the base rate"});
    schema.rule([this] { return positive_period_fault("over", over); });
  }
  std::string warmup_fault(const Period& warmup, const Clock& clock) const override {
    return fall_fault(over, warmup, clock);
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const Period period = Period::parse(over, "over");
    const std::int64_t updates = period.to_updates(clock.rows_per_epoch, clock.batch);
    if (k >= updates) return options.end;
    const double part = static_cast<double>(k) / static_cast<double>(updates);
    if (part < options.rise) return half_cosine(options.start, 1, part / options.rise);
    return half_cosine(1, options.end, (part - options.rise) / (1 - options.rise));
  }
};

}  // namespace

LearningRate one_cycle(double base, std::string over, const OneCycleOptions& o) {
  auto schedule = std::make_shared<OneCycleSchedule>();
  schedule->over = std::move(over);
  schedule->options = o;
  return make_rate(base, std::move(schedule));
}

void register_schedule_one_cycle(Registry& registry) {
  registry.table<ScheduleEntry>().add(
      "one_cycle", {[] { return std::make_unique<OneCycleSchedule>(); },
                    "a cosine up to the base rate and a longer one down to almost nothing"});
}

}  // namespace belfry
