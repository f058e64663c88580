// SPDX-License-Identifier: MIT
#include "belfry/core/log.h"
#include "belfry/towers/score.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

// Stops after `patience` validations in a row that were no better than the best before them.
class EarlyStop : public Hook {
 public:
  std::string name() const override { return "early_stop"; }
  void declare(Schema& schema) override {
    schema.key("patience", patience_,
               {.min = 0,
                .max = 1e9,
                .unit = "validations",
                .help = "validations without a gain before the end; 0: never"});
    score_.declare(schema);
  }
  void check(const TrainRun& run) override {
    if (patience_ > 0 && !run.has_validation())
      throw ConfigError(ErrorText{.what = "early_stop.patience needs a validation set",
                                  .found = "no table [validation]"});
  }
  void on_start(TrainRun& run) override { stop_if_due(run); }
  void on_validation(TrainRun& run, const EvalReport& report) override {
    if (patience_ == 0) return;
    if (score_.improve(score_.value(report)))
      bad_ = 0;
    else
      ++bad_;
    stop_if_due(run);
  }
  HookState state() const override {
    return {{"best", score_.best}, {"bad_validations", static_cast<double>(bad_)}};
  }
  void restore(const HookState& saved) override {
    if (const auto best = saved.find("best"); best != saved.end()) score_.best = best->second;
    if (const auto bad = saved.find("bad_validations"); bad != saved.end())
      bad_ = static_cast<std::int64_t>(bad->second);
  }

 private:
  void stop_if_due(TrainRun& run) const {
    if (patience_ > 0 && bad_ >= patience_)
      run.stop(fmt::format("{} validations without a better {} than {:.4f}", bad_, score_.name(),
                           score_.best));
  }

  std::int64_t patience_ = 0;
  std::int64_t bad_ = 0;
  BestScore score_;
};

}  // namespace

void register_hook_early_stop(Registry& registry) {
  registry.table<HookEntry>().add("early_stop", {[] { return std::make_shared<EarlyStop>(); },
                                                 "ends training when validation stops improving"});
}

}  // namespace belfry
