// SPDX-License-Identifier: MIT
#include "belfry/core/units.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

// Evaluates the validation set every so often, before other hooks see the update.
class ValidationHook : public Hook {
 public:
  std::string name() const override { return "validation"; }
  bool optional_table() const override { return true; }
  int order() const override { return -10; }
  void declare(Schema& schema) override {
    schema.key("every", every_, {.period = true, .help = "how often it is evaluated"});
  }
  void check(const TrainRun& run) override {
    period_ = Period::parse(every_, "validation.every");
    if (period_.value <= 0)
      throw ConfigError(ErrorText{
          .what = "key 'validation.every'", .found = every_, .expected = "a period above 0"});
    (void)run.due(period_);  // a period in epochs needs their length
  }
  void on_start(TrainRun& run) override { run.validate_every = period_; }
  void on_update(TrainRun& run, const Report&) override { validate_if_due(run); }
  void on_skipped(TrainRun& run) override { validate_if_due(run); }

 private:
  void validate_if_due(TrainRun& run) const {
    if (run.has_validation() && run.due(period_)) run.validate();
  }

  std::string every_ = "1e";
  Period period_;
};

}  // namespace

void register_hook_validation(Registry& registry) {
  registry.table<HookEntry>().add("validation", {[] { return std::make_shared<ValidationHook>(); },
                                                 "evaluates [validation] in between"});
}

}  // namespace belfry
