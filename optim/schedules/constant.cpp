// SPDX-License-Identifier: MIT
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class ConstantSchedule : public Schedule {
 public:
  std::string name() const override { return "constant"; }
  void declare(Schema&) override {}
  double factor(std::int64_t, const Clock&) const override { return 1; }
};

}  // namespace

LearningRate constant(double base) { return make_rate(base, std::make_shared<ConstantSchedule>()); }

void register_schedule_constant(Registry& registry) {
  registry.table<ScheduleEntry>().add(
      "constant",
      {[] { return std::make_unique<ConstantSchedule>(); }, "the base rate throughout"});
}

}  // namespace belfry
