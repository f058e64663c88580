// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class StepSchedule : public Schedule {
 public:
  std::string every;
  double gamma = 0.1;

  std::string name() const override { return "step"; }
  void declare(Schema& schema) override {
    schema.key("every", every, {.period = true, .help = "time between two drops"});
    schema.key("gamma", gamma,
               {.min = 0, .max = 1, .exclusive_min = true, .help = "factor of each drop"});
    schema.rule([this] { return positive_period_fault("every", every); });
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const Period period = Period::parse(every, "every");
    const std::int64_t updates = period.to_updates(clock.rows_per_epoch, clock.batch);
    return std::pow(gamma, static_cast<double>(k / updates));
  }
};

}  // namespace

LearningRate step(double base, std::string every, double gamma) {
  auto schedule = std::make_shared<StepSchedule>();
  schedule->every = std::move(every);
  schedule->gamma = gamma;
  return make_rate(base, std::move(schedule));
}

void register_schedule_step(Registry& registry) {
  registry.table<ScheduleEntry>().add("step", {[] { return std::make_unique<StepSchedule>(); },
                                               "multiplied by gamma after each period"});
}

}  // namespace belfry
