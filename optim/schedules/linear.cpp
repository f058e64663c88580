// SPDX-License-Identifier: MIT
#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class LinearSchedule : public Schedule {
 public:
  std::string over;
  double end = 0;

  std::string name() const override { return "linear"; }
  void declare(Schema& schema) override {
    schema.key("over", over, {.period = true, .help = "length of the fall, the end after it"});
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
    return 1 + (end - 1) * (static_cast<double>(k) / static_cast<double>(updates));
  }
};

}  // namespace

LearningRate linear(double base, std::string over, double end) {
  auto schedule = std::make_shared<LinearSchedule>();
  schedule->over = std::move(over);
  schedule->end = end;
  return make_rate(base, std::move(schedule));
}

void register_schedule_linear(Registry& registry) {
  registry.table<ScheduleEntry>().add("linear", {[] { return std::make_unique<LinearSchedule>(); },
                                                 "a straight line from the base rate to its end"});
}

}  // namespace belfry
