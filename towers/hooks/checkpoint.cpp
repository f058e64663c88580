// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/checkpoint.h"

#include "belfry/core/units.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/score.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

// Saves <output>/step_<update> every so often and at the end of a run, and <output>/best at the
// best validation. Old ones go after the new one is safe; `best` stays.
class CheckpointHook : public Hook {
 public:
  std::string name() const override { return "checkpoint"; }
  int order() const override { return 10; }
  void declare(Schema& schema) override {
    schema.key("every", every_, {.period = true, .help = "how often a checkpoint is saved"})
        .key("keep", keep_, {.min = 1, .max = 1e9, .help = "newest checkpoints kept"})
        .key("best", best_, {.help = "also keep the best by validation, in the folder 'best'"});
    score_.declare(schema);
  }
  void check(const TrainRun& run) override {
    period_ = Period::parse(every_, "checkpoint.every");
    if (period_.value <= 0)
      throw ConfigError(ErrorText{
          .what = "key 'checkpoint.every'", .found = every_, .expected = "a period above 0"});
    (void)run.due(period_);  // a period in epochs needs their length
  }
  void on_start(TrainRun& run) override {
    saved_ = run.resumed ? run.result.update : -1;
    later_ = run.resumed;
    if (!run.options.output.empty())
      clean_checkpoints(run.options.output, run.log(), *run.options.files);
  }
  void on_update(TrainRun& run, const Report&) override {
    if (run.due(period_)) save(run);
  }
  void on_skipped(TrainRun& run) override {
    if (run.due(period_)) save(run);
  }
  void on_validation(TrainRun& run, const EvalReport& report) override {
    if (!best_ || run.options.output.empty() || !score_.improve(score_.value(report))) return;
    Checkpoint(run.options.output + "/best", run.group, *run.options.files).save(state_of(run));
    run.log().info("new best {} {:.4f} at update {}", score_.metric, score_.best,
                   run.result.update);
  }
  void on_end(TrainRun& run) override { save(run); }
  HookState state() const override { return {{"best", score_.best}}; }
  void restore(const HookState& saved) override {
    if (const auto best = saved.find("best"); best != saved.end()) score_.best = best->second;
  }

 private:
  static RunState state_of(const TrainRun& run) {
    RunState out{.position = run.loader.position(),
                 .attempts = run.attempts,
                 .rows = run.rows,
                 .batch = run.loader.options().batch,
                 .config = run.options.config,
                 .hooks = {}};
    for (const auto& hook : run.hooks)
      if (HookState state = hook->state(); !state.empty())
        out.hooks[hook->name()] = std::move(state);
    return out;
  }
  void save(TrainRun& run) {
    if (run.options.output.empty() || run.result.update == saved_) return;
    const std::string& folder = run.options.output;
    FileOps& files = *run.options.files;
    Checkpoint(checkpoint_path(folder, run.result.update), run.group, files).save(state_of(run));
    saved_ = run.result.update;
    try {  // the new one is safe: what goes wrong with others is no reason to end the run
      if (later_) leave_checkpoints(folder, saved_, run.log(), files);
      later_ = false;
      prune_checkpoints(folder, keep_, saved_, files);
    } catch (const CheckpointError& error) {
      run.log().warn("{}", error.what());
    }
  }

  std::string every_ = "1e";
  std::int64_t keep_ = 3;
  bool best_ = true;
  BestScore score_;
  Period period_;
  std::int64_t saved_ = -1;  // update of the newest one
  bool later_ = false;       // there may be later ones, of the run before it was resumed
};

}  // namespace

void register_hook_checkpoint(Registry& registry) {
  registry.table<HookEntry>().add("checkpoint", {[] { return std::make_shared<CheckpointHook>(); },
                                                 "saves the run, to be resumed"});
}

}  // namespace belfry
