// SPDX-License-Identifier: MIT
#include "belfry/optim/schedules/polynomial.h"

#include <cmath>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class PolynomialSchedule : public Schedule {
 public:
  std::string over;
  double power = 2, end = 0;

  std::string name() const override { return "polynomial"; }
  void declare(Schema& schema) override {
    schema.key("over", over, {.period = true, .help = "length of the fall, the end after it"});
    schema.key("power", power,
               {.min = 0, .max = 100, .exclusive_min = true, .help = "1: a straight line"});
    schema.key("end", end, {.min = 0, .max = 1, .help = "end, as a fraction of the base rate"});
    schema.rule([this] { return positive_period_fault("over", over); });
  }
  std::string warmup_fault(const Period& warmup, const Clock& clock) const override {
    return fall_fault(over, warmup, clock);
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const Period period = Period::parse(over, "over");
    const std::int64_t updates = period.to_updates(clock.rows_per_epoch, clock.batch);
    if (k >= updates) return end;
    const double left = 1 - static_cast<double>(k) / static_cast<double>(updates);
    return end + (1 - end) * std::pow(left, power);
  }
};

}  // namespace

LearningRate polynomial(double base, std::string over, double power, double end) {
  auto schedule = std::make_shared<PolynomialSchedule>();
  schedule->over = std::move(over);
  schedule->power = power;
  schedule->end = end;
  return make_rate(base, std::move(schedule));
}

void register_schedule_polynomial(Registry& registry) {
  registry.table<ScheduleEntry>().add(
      "polynomial", {[] { return std::make_unique<PolynomialSchedule>(); },
                     "what is left of the time to a power, from the base rate to its end"});
}

}  // namespace belfry
