// SPDX-License-Identifier: MIT
#include "belfry/optim/schedules/inverse_sqrt.h"

#include <cmath>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class InverseSqrtSchedule : public Schedule {
 public:
  std::string hold;

  std::string name() const override { return "inverse_sqrt"; }
  void declare(Schema& schema) override {
    schema.key("hold", hold,
               {.period = true, .help = "how long the base rate is kept; as long as the warm-up"});
    schema.rule([this] { return positive_period_fault("hold", hold); });
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const Period period = Period::parse(hold, "hold");
    const std::int64_t updates = period.to_updates(clock.rows_per_epoch, clock.batch);
    if (k <= updates) return 1;
    return std::sqrt(static_cast<double>(updates) / static_cast<double>(k));
  }
};

}  // namespace

LearningRate inverse_sqrt(double base, std::string hold) {
  auto schedule = std::make_shared<InverseSqrtSchedule>();
  schedule->hold = std::move(hold);
  return make_rate(base, std::move(schedule));
}

void register_schedule_inverse_sqrt(Registry& registry) {
  registry.table<ScheduleEntry>().add(
      "inverse_sqrt", {[] { return std::make_unique<InverseSqrtSchedule>(); },
                       "the base rate for a while, then falling with the root of the updates"});
}

}  // namespace belfry
