// SPDX-License-Identifier: MIT
#include "belfry/towers/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"

namespace belfry {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return b > 0 ? a / b : 0; }

// Tells the hooks that an error ends the run.
void abort_hooks(TrainRun& run) noexcept {
  for (const auto& hook : run.hooks) hook->on_abort(run);
}

// A position saved with another batch size, moved back to where a batch starts: no row is lost.
std::int64_t batch_start(const Loader& loader, std::int64_t position) {
  const std::int64_t inside = position % loader.dataset().rows();
  return position - inside % loader.options().batch;
}

void log_layout(const TrainRun& run, const Manifest& saved, const std::string& path) {
  const std::int64_t towers = run.group.context().towers(), batch = run.loader.options().batch;
  const std::string before = std::to_string(saved.run.batch), now = std::to_string(batch);
  run.log().info("resumed from {} at update {}, {} rows", path, saved.clocks.update,
                 saved.run.rows);
  if (saved.run.batch == batch) {
    if (saved.towers != towers)
      run.log().info("towers {} -> {}, global batch {} (unchanged)", saved.towers, towers, batch);
  } else if (saved.run.batch > 0) {
    run.log().warn("towers {} -> {}, global batch {} -> {}: progress is kept in rows", saved.towers,
                   towers, before, now);
  }
  if (saved.seed != run.group.context().seed())
    run.log().warn("seed {} -> {}: the order of rows and random masks change", saved.seed,
                   run.group.context().seed());
}

}  // namespace

double TrainRun::now() const { return options.now ? options.now() : steady_seconds(); }

void TrainRun::validate() {
  result.validation = validate_with();
  for (const auto& hook : hooks) hook->on_validation(*this, *result.validation);
}

std::int64_t TrainRun::total_updates() const {
  return loader.options().epochs * loader.batches_per_epoch();
}

std::int64_t TrainRun::done_updates() const {
  const std::int64_t rows_set = loader.dataset().rows(), batch = loader.options().batch;
  const std::int64_t inside = loader.position() % rows_set;
  return loader.position() / rows_set * loader.batches_per_epoch() + (inside + batch - 1) / batch;
}

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
    : group_(group), loader_(loader), loss_(std::move(loss)), options_(std::move(options)) {}

Trainer& Trainer::add(std::shared_ptr<Hook> hook) {
  hooks_.push_back(std::move(hook));
  return *this;
}

Trainer& Trainer::validation(std::function<EvalReport()> evaluate) {
  validate_ = std::move(evaluate);
  return *this;
}

void Trainer::resume(TrainRun& run) {
  if (options_.resume.empty()) {
    if (!options_.output.empty() && !list_checkpoints(options_.output).empty())
      throw ConfigError(ErrorText{.what = "the output folder already holds a run",
                                  .found = "checkpoints in '" + options_.output + "'",
                                  .fix = "continue it with --resume, or use another folder"});
    return;
  }
  std::string path = options_.resume;
  if (path == "newest") {
    path = newest_checkpoint(options_.output, options_.fallback, run.log());
    if (path.empty()) {
      run.log().warn("no checkpoint in '{}': training starts from the beginning", options_.output);
      return;
    }
  } else {
    path = find_checkpoint(path, options_.fallback, run.log());
  }
  const Manifest saved = Checkpoint(path, group_).load({.partial = options_.partial});
  const std::int64_t start = batch_start(loader_, saved.run.position);
  if (start != saved.run.position)
    run.log().warn("{} rows of this epoch are trained again", saved.run.position - start);
  loader_.seek(start);
  run.resumed = true;
  run.attempts = saved.run.attempts;
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
    return true;
  }
  report.data_wait = batch.wait_seconds;
  report.seconds = run.now() - start;
  run.result.throughput.add({1, batch.rows, report.seconds, batch.wait_seconds, report.exposed});
  run.result.update = report.update;
  ++run.result.updates;
  for (const auto& hook : run.hooks) hook->on_update(run, report);
  const std::int64_t set = loader_.dataset().rows();
  if (loader_.position() % set == 0)
    for (const auto& hook : run.hooks) hook->on_epoch(run, loader_.position() / set);
  return true;
}

void Trainer::loop(TrainRun& run) {
  for (const auto& hook : run.hooks) hook->on_start(run);
  for (;;) {
    if (!run.result.stopped.empty()) break;
    if (const int number = options_.signal ? options_.signal() : 0; number != 0) {
      run.result.signal = number;
      run.stop("signal " + std::to_string(number));
      break;
    }
    if (!one_update(run)) {
      run.result.complete = true;
      break;
    }
  }
  for (const auto& hook : run.hooks) hook->on_end(run);
}

TrainResult Trainer::run() {
  TrainRun run(group_, loader_, options_);
  run.hooks = hooks_;
  std::stable_sort(run.hooks.begin(), run.hooks.end(),
                   [](const auto& a, const auto& b) { return a->order() < b->order(); });
  run.validate_with = validate_;
  resume(run);
  run.first_update = run.result.update = group_.clocks().attempts;
  if (loader_.position() >= loader_.options().epochs * loader_.dataset().rows()) {
    run.result.complete = true;
    run.log().info("training is complete: {} epochs, {} updates; nothing to do",
                   loader_.options().epochs, run.result.update);
    return run.result;
  }
  for (const auto& hook : run.hooks) hook->check(run);
  std::optional<FolderLock> lock;  // before anything is written
  if (!options_.output.empty()) lock.emplace(options_.output);
  try {
    loop(run);
  } catch (...) {
    abort_hooks(run);
    throw;
  }
  return run.result;
}

}  // namespace belfry
