// SPDX-License-Identifier: MIT
// Checkpoints of a large model with momentum: their rate beside plain writes of as many bytes to
// the same disk, and how long one in the background stops training beside a copy in memory.
#include "belfry/towers/checkpoint/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <memory>

#include "belfry/bench/common/options.h"
#include "belfry/bench/common/rates.h"
#include "belfry/bench/common/results.h"
#include "belfry/bench/common/scratch.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/background.h"

namespace belfry::bench {
namespace {

constexpr std::int64_t kOne = std::int64_t{4} << 20;  // elements of a variable, at most

struct Net : Module {
  explicit Net(std::int64_t elements) {
    for (std::int64_t k = 0; k * kOne < elements; ++k)
      parts.push_back(std::make_unique<Variable>(*this, "part" + std::to_string(k),
                                                 Shape{std::min(kOne, elements - k * kOne)},
                                                 Init::uniform(0.1)));
  }
  std::vector<std::unique_ptr<Variable>> parts;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : context_({.towers = "cpu:" + std::to_string(options.towers), .threads_per_tower = 1}),
        group_(context_, momentum({.lr = 0.1}),
               [&options] { return std::make_unique<Net>(options.elements); }),
        bytes_(static_cast<std::size_t>(options.elements) * sizeof(float)),
        source_(std::make_unique_for_overwrite<std::byte[]>(bytes_)) {
    std::memset(source_.get(), 1, bytes_);
    rounds.bytes = 2.0 * static_cast<double>(bytes_);  // parameters and velocity
  }

  void round() {
    rounds.write.add(timed([&] { write(); }));
    std::filesystem::remove(folder_ / "plain");
    Checkpoint checkpoint(folder_ / "saved", group_);
    rounds.save.add(timed([&] { checkpoint.save(); }));
    rounds.copy.add(timed([&] { copy(); }));
    rounds.pause.add(timed([&] { checkpoint.save_async(); }));
    group_.background().wait();
    std::filesystem::remove_all(folder_ / "saved");
  }

  const std::string& folder() const { return folder_.path(); }
  CheckpointRounds rounds;

 private:
  template <class F>
  static double timed(const F& f) {
    const Clock::time_point start = Clock::now();
    f();
    return seconds_since(start);
  }

  // As a checkpoint's files are: in large pieces, and flushed.
  void write() {
    FileWriter file(folder_ / "plain", system_files());
    for (int half = 0; half < 2; ++half)
      for (std::size_t at = 0; at < bytes_; at += kPiece)
        file.write({source_.get() + at, std::min(kPiece, bytes_ - at)});
    file.finish();
  }

  // Into memory of its own, which whoever keeps a copy until it is written needs too.
  void copy() {
    for (auto& to : copies_) {
      to = std::make_unique_for_overwrite<std::byte[]>(bytes_);
      std::memcpy(to.get(), source_.get(), bytes_);
    }
    for (auto& to : copies_) to.reset();
  }

  static constexpr std::size_t kPiece = static_cast<std::size_t>(kOne) * sizeof(float);
  Context context_;
  TowerGroupBase group_;
  Scratch folder_;
  std::size_t bytes_;  // of each of the two arrays
  std::unique_ptr<std::byte[]> source_, copies_[2];
};

bool run(const Options& options) {
  Results results("checkpoint");
  Bench bench(options);
  results.setting("parameters", std::to_string(options.elements));
  results.setting("towers", std::to_string(options.towers));
  results.setting("folder", bench.folder());
  for (int i = 0; i < options.rounds; ++i) bench.round();
  const CheckpointRounds& r = bench.rounds;
  results.figure("save_rate", "a save: parameters and velocity", r.rate(r.save), "MB/s", 1e-6);
  results.figure("write_rate", "as many bytes written and flushed", r.rate(r.write), "MB/s", 1e-6);
  results.figure("disk_share", "  share", r.disk_share(), "%", 100);
  results.figure("pause", "pause of a save in the background", r.pause, "ms", 1e3);
  results.figure("copy", "a copy of as many bytes into new memory", r.copy, "ms", 1e3);
  results.figure("pause_over_copy", "  pause / copy", r.pause_over_copy(), "x");
  results.at_least("disk_share", 70);
  results.at_most("pause_over_copy", 1);
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run,
                                   {.elements = 100'000'000, .rounds = 3});
}
