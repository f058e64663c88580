// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/checkpoint.h"

#include <optional>

#include "belfry/core/units.h"
#include "belfry/towers/background.h"
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
        .key("sync", sync_, {.help = "training waits until a checkpoint is on the disk"})
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
    if (run.resumed && !run.options.output.empty())
      leave_checkpoints(run.options.output, saved_, run.log(), *run.options.files);
  }
  void on_update(TrainRun& run, const Report&) override {
    if (run.due(period_)) save(run);
  }
  void on_skipped(TrainRun& run) override {
    if (run.due(period_)) save(run);
  }
  void on_validation(TrainRun& run, const EvalReport& report) override {
    const double before = score_.best;
    if (!best_ || run.options.output.empty() || !score_.improve(score_.value(report))) return;
    write(run, run.options.output + "/best", {});
    best_before_ = before;
    run.log().info("new best {} {:.4f} at update {}", score_.name(), score_.best,
                   run.result.update);
  }
  void on_end(TrainRun& run) override {
    if (const std::string fault = run.group.background().wait_quietly(); !fault.empty()) {
      run.log().warn("{}", fault);
      if (best_before_) score_.best = *best_before_;  // the best one on the disk is the one before
      saved_ = -1;  // the last save of the run is the answer to it
    }
    sync_ = true;
    save(run);
  }
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
                 .hooks = {},
                 .data = record_of(run.loader.dataset())};
    for (const auto& hook : run.hooks)
      if (HookState state = hook->state(); !state.empty())
        out.hooks[hook->name()] = std::move(state);
    return out;
  }
  void save(TrainRun& run) {
    if (run.options.output.empty() || run.result.update == saved_) return;
    const std::string& folder = run.options.output;
    saved_ = run.result.update;
    const auto prune = [folder, keep = keep_, saved = saved_, log = run.log(),
                        files = run.options.files] {
      try {  // the new one is safe: what goes wrong with others is no reason to end the run
        prune_checkpoints(folder, keep, saved, *files);
      } catch (const CheckpointError& error) {
        log.warn("{}", error.what());
      }
    };
    write(run, checkpoint_path(folder, saved_), prune);
    best_before_.reset();
  }
  void write(TrainRun& run, const std::string& path, const std::function<void()>& then) const {
    Checkpoint checkpoint(path, run.group, *run.options.files);
    if (!sync_) return checkpoint.save_async(state_of(run), then);
    checkpoint.save(state_of(run));
    if (then) then();
  }

  std::string every_ = "1e";
  std::int64_t keep_ = 3;
  bool sync_ = false;
  bool best_ = true;
  BestScore score_;
  Period period_;
  std::int64_t saved_ = -1;            // update of the newest one
  std::optional<double> best_before_;  // while the save under way is that of the best
};

}  // namespace

void register_hook_checkpoint(Registry& registry) {
  registry.table<HookEntry>().add("checkpoint", {[] { return std::make_shared<CheckpointHook>(); },
                                                 "saves the run, to be resumed"});
}

}  // namespace belfry
