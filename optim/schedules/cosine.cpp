// SPDX-License-Identifier: MIT
#include <cmath>
#include <numbers>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class CosineSchedule : public Schedule {
 public:
  std::string over;
  double floor = 0;

  std::string name() const override { return "cosine"; }
  void declare(Schema& schema) override {
    schema.key("over", over, {.period = true, .help = "length of the fall, the floor after it"});
    schema.key("floor", floor, {.min = 0, .max = 1, .help = "end, as a fraction of the base rate"});
    schema.rule([this] { return positive_period_fault("over", over); });
  }
  std::string warmup_fault(const Period& warmup, const Clock& clock) const override {
    return fall_fault(over, warmup, clock);
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const Period period = Period::parse(over, "over");
    const std::int64_t updates = period.to_updates(clock.rows_per_epoch, clock.batch);
    if (k >= updates) return floor;
    const double part = static_cast<double>(k) / static_cast<double>(updates);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
};

}  // namespace

LearningRate cosine(double base, std::string over, double floor) {
  auto schedule = std::make_shared<CosineSchedule>();
  schedule->over = std::move(over);
  schedule->floor = floor;
  return make_rate(base, std::move(schedule));
}

void register_schedule_cosine(Registry& registry) {
  registry.table<ScheduleEntry>().add("cosine", {[] { return std::make_unique<CosineSchedule>(); },
                                                 "half a cosine from the base rate to the floor"});
}

}  // namespace belfry
