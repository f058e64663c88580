// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "belfry/core/atomic_file.h"
#include "belfry/core/units.h"
#include "belfry/data/loader.h"
#include "belfry/towers/group.h"
#include "belfry/towers/hook.h"
#include "belfry/towers/throughput.h"

namespace belfry {

struct TrainerOptions {
  std::string output{};   // folder of checkpoints and metrics; "" keeps nothing
  std::string resume{};   // "": a fresh run; "newest": from `output`; else a checkpoint's path
  bool partial = false;   // resume from what fits of another model or optimizer
  bool fallback = false;  // resume from the newest undamaged checkpoint
  std::string config{};   // text kept in checkpoints
  std::function<double()> now{};                // seconds; empty: the system's steady clock
  std::function<void(std::string_view)> out{};  // progress text; empty: none
  bool live = false;                            // `out` is a terminal
  std::function<int()> signal{};                // number of a pending signal, 0: none
  FileOps* files = &system_files();             // what writes to `output`
};

struct TrainResult {
  std::int64_t updates = 0;  // of this call
  std::int64_t update = 0;   // number of the last one
  bool complete = false;     // all epochs are done
  std::string stopped;       // why it ended before
  int signal = 0;
  Throughput throughput;
  std::optional<EvalReport> validation;  // the last one
};

// What hooks see of a run. Lives as long as Trainer::run().
class TrainRun {
 public:
  TrainRun(TowerGroupBase& group_in, Loader& loader_in, const TrainerOptions& options_in)
      : group(group_in), loader(loader_in), options(options_in) {}

  TowerGroupBase& group;
  Loader& loader;
  const TrainerOptions& options;
  std::vector<std::shared_ptr<Hook>> hooks;
  TrainResult result;
  bool resumed = false;
  Period validate_every;          // 0: never
  std::int64_t validations = 0;   // of this run
  double validation_seconds = 0;  // all of them together
  std::int64_t attempts = 0;      // updates tried since the start of training
  std::int64_t rows = 0;          // rows tried since the start of training
  std::int64_t rows_before = 0;   // the same before the last update
  std::int64_t first_update = 0;  // number of the last update before this run

  double now() const;
  const Log& log() const { return group.context().logger(); }
  void put(std::string_view text) const {
    if (options.out) options.out(text);
  }
  void stop(std::string reason) { result.stopped = std::move(reason); }
  bool has_validation() const { return static_cast<bool>(validate_with); }
  void validate();                     // evaluates and tells the hooks
  std::int64_t total_updates() const;  // of all epochs
  std::int64_t done_updates() const;   // by the loader's position
  // Seconds that the validations still to come take, by those of this run so far.
  double validation_left() const;
  // Whether the last update completed a multiple of `period`.
  bool due(const Period& period) const;

  std::function<EvalReport()> validate_with;
};

// Trains a group over a loader: resume, updates, hooks, clean stop. Owns nothing but the hooks; the
// group is left usable whatever happens, except after CommError and DeviceError. One thread.
class Trainer {
 public:
  Trainer(TowerGroupBase& group, Loader& loader, LossFn loss, TrainerOptions options = {});
  // With a step function as step() takes it: fn(Net&, const Batch&, Step&).
  template <class Net, class F>
    requires std::is_invocable_r_v<Loss, F&, Net&, const Batch&, Step&> &&
             (!std::is_same_v<F, LossFn>)
  Trainer(TowerGroup<Net>& group, Loader& loader, F fn, TrainerOptions options = {})
      : Trainer(static_cast<TowerGroupBase&>(group), loader,
                LossFn([fn = std::move(fn)](Module& m, const Batch& b, Step& s) mutable -> Loss {
                  return fn(static_cast<Net&>(m), b, s);
                }),
                std::move(options)) {}

  Trainer& add(std::shared_ptr<Hook> hook);
  Trainer& validation(std::function<EvalReport()> evaluate);
  // May be called once. Errors of a step, a hook, the loader or a checkpoint come out of it.
  TrainResult run();
  // From any thread, or a signal handler: the run ends like one with a signal, on all ranks alike.
  void request_stop() noexcept { group_.request_stop(); }

 private:
  std::string checkpoint_to_resume(const Log& log) const;
  void resume(TrainRun& run, const std::string& path);
  void loop(TrainRun& run);
  bool one_update(TrainRun& run);
  void refused(TrainRun& run, const NumericError& error);

  TowerGroupBase& group_;
  Loader& loader_;
  LossFn loss_;
  TrainerOptions options_;
  std::vector<std::shared_ptr<Hook>> hooks_;
  std::function<EvalReport()> validate_;
};

}  // namespace belfry
