// SPDX-License-Identifier: MIT
#include "belfry/towers/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "belfry/data/byte_file.h"
#include "belfry/device/host_kernels.h"
#include "belfry/towers/background.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/run_position.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return b > 0 ? a / b : 0; }

// Tells the hooks when the last update was an epoch's last, applied or not.
void end_epoch(TrainRun& run) {
  const std::int64_t set = run.loader.dataset().rows(), position = run.loader.position();
  if (position % set != 0) return;
  for (const auto& hook : run.hooks) hook->on_epoch(run, position / set);
}

// Tells the hooks that an error ends the run.
void abort_hooks(TrainRun& run) noexcept {
  for (const auto& hook : run.hooks) hook->on_abort(run);
}

void log_layout(const TrainRun& run, const Manifest& saved, const std::string& path) {
  const std::int64_t towers = run.group.context().towers(), batch = run.loader.options().batch;
  const std::string before = std::to_string(saved.run.batch), now = std::to_string(batch);
  run.log().info("resumed from {} at update {}, {}", path, saved.clocks.attempts,
                 count_text(saved.run.rows, "row"));
  for (const std::string& change : data_changes(saved.run.data, record_of(run.loader.dataset())))
    run.log().warn("the data set is not that of the checkpoint: {}", change);
  if (saved.run.batch == batch) {
    if (saved.towers != towers)
      run.log().info("towers {} -> {}, global batch {} (unchanged)", saved.towers, towers, batch);
  } else if (saved.run.batch > 0) {
    run.log().warn("towers {} -> {}, global batch {} -> {}: progress is kept in rows", saved.towers,
                   towers, before, now);
  }
  const Optimizer& o = run.group.optimizer();
  const auto mode = [](std::int64_t shards) {
    return shards == 0 ? std::string("not strict")
                       : "strict with " + std::to_string(shards) + " virtual shards";
  };
  const std::int64_t shards = o.reduce == ReduceMode::strict ? o.virtual_shards : 0;
  if (saved.virtual_shards != shards)
    run.log().warn("reduce: {} -> {}: sums are rounded in another order",
                   mode(saved.virtual_shards), mode(shards));
  const auto rounds = [&](const char* what, const std::string& then, const std::string& here) {
    if (!then.empty() && then != here)
      run.log().warn("{}: {} -> {}: products and sums are rounded in another way", what, then,
                     here);
  };
  const auto version = [&saved](const char* name) {
    const auto found = saved.versions.find(name);
    return found == saved.versions.end() ? std::string() : found->second;
  };
  Context& context = run.group.context();
  rounds("precision", version("precision"), std::string(name_of(context.options().precision)));
  rounds("instruction set", version("instruction_set"), name_of(instruction_set()));
  rounds("threads a tower", std::to_string(saved.threads_per_tower),
         std::to_string(context.device(0).threads()));
  if (saved.seed != run.group.context().seed())
    run.log().warn("seed {} -> {}: the order of rows and random masks change", saved.seed,
                   run.group.context().seed());
}

}  // namespace

double TrainRun::now() const { return options.now ? options.now() : steady_seconds(); }

void TrainRun::validate() {
  result.validation = validate_with();
  ++validations;
  validation_seconds += result.validation->seconds;
  for (const auto& hook : hooks) hook->on_validation(*this, *result.validation);
}

double TrainRun::validation_left() const {
  if (validations == 0 || validate_every.value <= 0) return 0;
  const std::int64_t every = std::max<std::int64_t>(
      1, validate_every.to_updates(loader.rows_per_epoch(), loader.options().batch));
  const std::int64_t left = total_updates() / every - done_updates() / every;
  return static_cast<double>(left) * validation_seconds / static_cast<double>(validations);
}

std::int64_t TrainRun::total_updates() const {
  return updates_before(loader, loader.options().epochs * loader.dataset().rows());
}

std::int64_t TrainRun::done_updates() const { return updates_before(loader, loader.position()); }

bool TrainRun::due(const Period& period) const {
  if (period.value <= 0) return false;
  const std::int64_t set = loader.dataset().rows();
  const bool whole = std::floor(period.value) == period.value;
  switch (period.unit) {
    case Period::Unit::rows: {
      const auto n = static_cast<std::int64_t>(period.value);
      return floor_div(rows, n) > floor_div(rows_before, n);
    }
    case Period::Unit::epochs:
      // Whole epochs end where the data does, also after refused updates or a changed batch.
      if (whole)
        return loader.position() % set == 0 &&
               loader.position() / set % static_cast<std::int64_t>(period.value) == 0;
      break;
    case Period::Unit::updates:
      break;
  }
  return attempts % std::max<std::int64_t>(
                        1, period.to_updates(loader.rows_per_epoch(), loader.options().batch)) ==
         0;
}

Trainer::Trainer(TowerGroupBase& group, Loader& loader, LossFn loss, TrainerOptions options)
    : group_(group), loader_(loader), loss_(std::move(loss)), options_(std::move(options)) {
  if (!loss_)
    throw ConfigError(ErrorText{.what = "the trainer's step function", .found = "an empty one"});
}

Trainer& Trainer::add(std::shared_ptr<Hook> hook) {
  if (!hook) throw ConfigError(ErrorText{.what = "a hook of the trainer", .found = "null"});
  for (const auto& h : hooks_)
    if (h->name() == hook->name())
      throw ConfigError(ErrorText{.what = "two hooks of a trainer have one name",
                                  .found = "'" + hook->name() + "' twice",
                                  .expected = "different names: checkpoints keep their states "
                                              "by these"});
  hooks_.push_back(std::move(hook));
  return *this;
}

Trainer& Trainer::validation(std::function<EvalReport()> evaluate) {
  validate_ = std::move(evaluate);
  return *this;
}

// "" when the run starts from the beginning.
std::string Trainer::checkpoint_to_resume(const Log& log) const {
  if (options_.resume.empty()) return "";
  if (options_.resume == "newest" && options_.output.empty())
    throw ConfigError(ErrorText{.what = "resume = \"newest\" of a trainer",
                                .found = "no output folder to look in",
                                .fix = "set TrainerOptions::output, or resume from a path"});
  if (options_.resume != "newest") return find_checkpoint(options_.resume, options_.fallback, log);
  std::string path = newest_checkpoint(options_.output, options_.fallback, log);
  if (path.empty())
    log.warn("no checkpoint in '{}': training starts from the beginning", options_.output);
  return path;
}

void Trainer::resume(TrainRun& run, const std::string& path) {
  const Manifest saved = Checkpoint(path, group_).load({.partial = options_.partial});
  loader_.seek(resume_position(loader_, saved.run, run.log()));
  run.resumed = true;
  run.rows = saved.run.rows;
  for (const auto& hook : run.hooks)
    if (const auto state = saved.run.hooks.find(hook->name()); state != saved.run.hooks.end())
      hook->restore(state->second);
  log_layout(run, saved, path);
}

void Trainer::refused(TrainRun& run, const NumericError& error) {
  bool handled = false;
  for (const auto& hook : run.hooks) handled = hook->on_refused(run, error) || handled;
  if (!handled) throw error;
}

// One batch, one update; false at the end of the data.
bool Trainer::one_update(TrainRun& run) {
  const double start = run.now();
  group_.background().check();  // before a batch is taken that nobody would train on
  Batch batch;
  if (!loader_.next(batch)) return false;
  run.rows_before = run.rows;
  run.rows += batch.rows;
  ++run.attempts;
  Report report;
  try {
    report = group_.step(batch, loss_);
  } catch (const NumericError& error) {
    refused(run, error);
    run.result.update = run.attempts;
    for (const auto& hook : run.hooks) hook->on_skipped(run);
    end_epoch(run);
    return true;
  }
  report.data_wait = batch.wait_seconds;
  report.seconds = run.now() - start;
  run.result.throughput.add({1, batch.rows, report.seconds, batch.wait_seconds, report.exposed});
  run.result.update = report.update;
  ++run.result.updates;
  for (const auto& hook : run.hooks) hook->on_update(run, report);
  end_epoch(run);
  if (report.stop && run.result.stopped.empty()) run.stop("a stop was asked for");
  return true;
}

void Trainer::loop(TrainRun& run) {
  for (const auto& hook : run.hooks) hook->on_start(run);
  for (;;) {
    if (!run.result.stopped.empty()) break;
    if (const int number = options_.signal ? options_.signal() : 0; number != 0) {
      run.result.signal = number;  // one process: all its towers are between the same updates
      const char* name = sigabbrev_np(number);
      run.stop(name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number));
      break;
    }
    if (!one_update(run)) {
      run.result.complete = true;
      break;
    }
  }
  for (const auto& hook : run.hooks) hook->on_end(run);
  group_.background().wait();
}

TrainResult Trainer::run() {
  TrainRun run(group_, loader_, options_);
  run.hooks = hooks_;
  std::stable_sort(run.hooks.begin(), run.hooks.end(),
                   [](const auto& a, const auto& b) { return a->order() < b->order(); });
  run.validate_with = validate_;
  std::optional<FolderLock> lock;  // before the folder is looked at, and before anything is written
  std::error_code status;
  if (fs::exists(options_.output, status)) {
    lock.emplace(options_.output, *options_.files);
    clean_checkpoints(options_.output, run.log(), *options_.files);
  }
  const std::string resumed = checkpoint_to_resume(run.log());
  refuse_other_run(options_.output, resumed);
  if (!resumed.empty()) resume(run, resumed);
  run.attempts = run.first_update = run.result.update = group_.clocks().attempts;
  if (loader_.position() >= loader_.options().epochs * loader_.dataset().rows()) {
    run.result.complete = true;
    run.log().info("training is complete: {}, {}; nothing to do",
                   count_text(loader_.options().epochs, "epoch"),
                   count_text(run.result.update, "update"));
    return run.result;
  }
  for (const auto& hook : run.hooks) hook->check(run);
  if (!options_.output.empty() && !lock) {
    lock.emplace(options_.output, *options_.files);
    refuse_other_run(options_.output, resumed);  // another run may have come first
  }
  try {
    loop(run);
  } catch (...) {
    abort_hooks(run);
    // Before the folder's lock goes. The error that ends the run is thrown, this one logged.
    if (const std::string fault = group_.background().wait_quietly(); !fault.empty())
      run.log().warn("{}", fault);
    throw;
  }
  return run.result;
}

}  // namespace belfry
