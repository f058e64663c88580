// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <utility>

#include "belfry/core/log.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/loss_text.h"
#include "belfry/towers/trainer.h"

namespace belfry {
namespace {

// "1:02:03" or "4:05".
std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

// Means of the reports since the last line, weighted by rows.
class Window {
 public:
  void add(const Report& r) {
    weight_ += r.weight;
    loss_ += r.weight * r.loss();
    for (const auto& [name, value] : r.metrics) metrics_[name] += r.weight * value;
  }
  std::string text(const std::string& label_unit) const {
    std::string out = loss_text(loss_ / weight_, label_unit);
    for (const auto& [name, sum] : metrics_) out += fmt::format(" {} {:.4f}", name, sum / weight_);
    return out;
  }

 private:
  double weight_ = 0, loss_ = 0;
  std::map<std::string, double> metrics_;
};

// A line of progress: on a terminal rewritten in place, elsewhere a line every `log.every` updates.
// Times are of the updates since the last line; the summary is of the run without its first update.
class Progress : public Hook {
 public:
  std::string name() const override { return "progress"; }
  std::string table() const override { return "log"; }
  void declare(Schema& schema) override {
    schema.key("every", every_,
               {.min = 1, .max = 1e9, .unit = "updates", .help = "updates a line of progress"});
  }
  void on_start(TrainRun& run) override { last_live_ = run.now() - 1; }
  void on_update(TrainRun& run, const Report& report) override {
    window_.add(report);
    const bool last =
        run.loader.position() >= run.loader.options().epochs * run.loader.dataset().rows();
    const bool due = run.result.updates % every_ == 0 || last;
    if (!due && !(run.options.live && run.now() - last_live_ >= kLiveSeconds)) return;
    const std::string text = line(run, report);
    if (!run.options.live) {
      run.put(text + "\n");
    } else {
      run.put("\r" + text + "\x1b[K" + (due ? "\n" : ""));
      open_line_ = !due;
      last_live_ = run.now();
    }
    if (due || run.options.live) shown_ = run.result.throughput.all();
    if (due) window_ = {};
  }
  void on_validation(TrainRun& run, const EvalReport& report) override {
    close_line(run);
    std::string text = fmt::format("validation at update {}: {}", run.result.update,
                                   loss_text(report.loss, run.loader.dataset().label_unit()));
    for (const auto& [name, value] : report.metrics) text += fmt::format(" {} {:.4f}", name, value);
    run.put(text +
            fmt::format(" ({}, {:.1f} s)\n", count_text(report.rows, "row"), report.seconds));
  }
  void on_end(TrainRun& run) override {
    close_line(run);
    const Throughput& t = run.result.throughput;
    const TrainTimes& rate = t.rate();
    if (!run.result.complete) run.put("stopped: " + run.result.stopped + "\n");
    run.put(fmt::format("trained {}, {} in {:.1f} s", count_text(t.all().updates, "update"),
                        count_text(t.all().rows, "row"), t.all().seconds));
    if (t.all().updates > 0)
      run.put(fmt::format(
          "; {:.0f} samples/s in total, {:.0f} per tower{}; exposed {:.1f}%, data wait {:.1f}%",
          rate.samples_per_second(), rate.samples_per_second() / run.group.context().towers(),
          t.left_out() == 0 ? "" : fmt::format(", without the first {}", t.left_out()),
          100 * rate.exposed_share(), 100 * rate.data_wait_share()));
    run.put("\n");
  }
  void on_abort(TrainRun& run) noexcept override {
    try {
      close_line(run);
    } catch (...) {  // `out` is the user's; the error that ends the run is what counts
    }
  }

 private:
  static constexpr double kLiveSeconds = 0.1;

  std::string line(const TrainRun& run, const Report& report) const {
    const TrainTimes part = run.result.throughput.all() - shown_;
    const std::int64_t total = run.total_updates(), done = run.done_updates();
    const TrainTimes& rate = run.result.throughput.rate();
    const double left = static_cast<double>(total - done) * rate.seconds /
                            static_cast<double>(std::max<std::int64_t>(1, rate.updates)) +
                        run.validation_left();
    return fmt::format(
        "epoch {}/{} update {}/{} {} lr {:.4g} {:.0f} samples/s exposed {:.1f}% data wait {:.1f}% "
        "ETA {}",
        report.epoch + 1, run.loader.options().epochs, report.update, report.update + total - done,
        window_.text(run.loader.dataset().label_unit()), report.lr, part.samples_per_second(),
        100 * part.exposed_share(), 100 * part.data_wait_share(), duration(left));
  }
  void close_line(TrainRun& run) {
    if (std::exchange(open_line_, false)) run.put("\n");
  }

  std::int64_t every_ = 100;
  Window window_;
  TrainTimes shown_;  // at the last line
  double last_live_ = 0;
  bool open_line_ = false;
};

}  // namespace

void register_hook_progress(Registry& registry) {
  registry.table<HookEntry>().add("progress", {[] { return std::make_shared<Progress>(); },
                                               "a line of progress, live on a terminal"});
}

}  // namespace belfry
