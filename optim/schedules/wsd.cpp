// SPDX-License-Identifier: MIT
#include "belfry/optim/schedules/wsd.h"

#include <cmath>

#include "belfry/core/units.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

class WsdSchedule : public Schedule {
 public:
  std::string stable, decay, shape = "linear";
  double end = 0;

  std::string name() const override { return "wsd"; }
  void declare(Schema& schema) override {
    schema.key("stable", stable,
               {.period = true, .help = "how long the base rate is kept, warm-up included"});
    schema.key("decay", decay, {.period = true, .help = "length of the fall after it"});
    schema.key("shape", shape, {.choices = {"linear", "sqrt"}, .help = "of the fall"});
    schema.key("end", end, {.min = 0, .max = 1, .help = "end, as a fraction of the base rate"});
    schema.rule([this] { return positive_period_fault("stable", stable); });
    schema.rule([this] { return positive_period_fault("decay", decay); });
  }
  std::string warmup_fault(const Period& warmup, const Clock& clock) const override {
    if (stable.empty()) return "";  // another fault
    return shorter(Period::parse(stable, "stable"), warmup, clock)
               ? "stable = \"" + stable + "\" ends before the warm-up of \"" + to_string(warmup) +
                     "\" that it includes"
               : "";
  }
  std::string run_fault(std::int64_t updates, const Clock& clock) const override {
    const auto length = [&clock](const std::string& text, const char* key) {
      return Period::parse(text, key).to_updates(clock.rows_per_epoch, clock.batch);
    };
    const std::int64_t from = length(stable, "stable"), fall = length(decay, "decay");
    const std::string last = ", and the run ends with update " + std::to_string(updates);
    if (from >= updates)
      return "the fall begins at update " + std::to_string(from) + " (stable = \"" + stable +
             "\")" + last + ": make stable shorter or the run longer";
    if (fall <= updates - from) return "";
    return "the fall takes " + std::to_string(fall) + " updates from update " +
           std::to_string(from) + " on (stable = \"" + stable + "\", decay = \"" + decay + "\")" +
           last + ": make stable or decay shorter or the run longer";
  }
  double factor(std::int64_t k, const Clock& clock) const override {
    const auto updates = [&](const std::string& text, const char* key) {
      return Period::parse(text, key).to_updates(clock.rows_per_epoch, clock.batch);
    };
    const std::int64_t from = updates(stable, "stable"), length = updates(decay, "decay");
    if (k <= from) return 1;
    if (k - from >= length) return end;
    const double part = static_cast<double>(k - from) / static_cast<double>(length);
    return 1 + (end - 1) * (shape == "sqrt" ? std::sqrt(part) : part);
  }
};

}  // namespace

LearningRate wsd(double base, std::string stable, std::string decay, double end,
                 std::string shape) {
  auto schedule = std::make_shared<WsdSchedule>();
  schedule->stable = std::move(stable);
  schedule->decay = std::move(decay);
  schedule->end = end;
  schedule->shape = std::move(shape);
  return make_rate(base, std::move(schedule));
}

void register_schedule_wsd(Registry& registry) {
  registry.table<ScheduleEntry>().add(
      "wsd", {[] { return std::make_unique<WsdSchedule>(); },
              "warm-up, stable, decay: the base rate, and a fall at the end of the run"});
}

}  // namespace belfry
