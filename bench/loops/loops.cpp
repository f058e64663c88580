// SPDX-License-Identifier: MIT
// Loops of small updates: 100,000 additions to one element that depend on each other, as ops, as a
// loop that is recorded each time, and as one that is replayed; the same additions as one op; and
// independent iterations on one core and on two.
#include "belfry/autodiff/ops/elementwise/tanh.h"
#include "belfry/autodiff/ops/index/scatter_add.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/results.h"
#include "belfry/device/context.h"
#include "belfry/device/loop.h"

namespace belfry::bench {
namespace {

constexpr std::int64_t kUpdates = 100000, kRows = 1000;
constexpr std::int64_t kIterations = 64, kElements = 20000;

double seconds_of(const std::function<void()>& fn) {
  const Clock::time_point start = Clock::now();
  fn();
  return seconds_since(start);
}

Tensor indices_of(std::int64_t count, Device& device) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k)
    out[static_cast<std::size_t>(k)] = static_cast<double>(k * 7919 % kRows);
  return Tensor::from(out, Shape{count}, DType::i32, device);
}

// All add the same ones to the same elements of `table`, in the same order.
class Updates {
 public:
  explicit Updates(Device& device)
      : device_(device),
        table_(Tensor::zeros(Shape{kRows}, DType::f32, device)),
        indices_(indices_of(kUpdates, device)),
        values_(
            Tensor::from(std::vector<double>(kUpdates, 1), Shape{kUpdates}, DType::f32, device)),
        index_(indices_of(1, device)),
        value_(values_.rows(0, 1)),
        loop_(device, kUpdates, {.carried = true}, [this](std::int64_t) { add(); }) {}
  void add() { scatter_add(table_, index_, value_, Duplicates::sum); }
  void as_ops() {
    for (std::int64_t k = 0; k < kUpdates; ++k) add();
  }
  void as_loop() {
    parallel_for(device_, kUpdates, {.carried = true}, [this](std::int64_t) { add(); });
  }
  void replayed() { loop_.run(); }
  void in_one() { scatter_add(table_, indices_, values_, Duplicates::sum); }
  double total() const {
    double sum = 0;
    for (const double v : table_.to_vector()) sum += v;
    return sum;
  }

 private:
  Device& device_;
  Tensor table_, indices_, values_, index_, value_;
  Loop loop_;
};

// Iterations of one tanh each, of rows that no other one has. The best of several runs: threads
// that meet at an end lose whole time slices to other work of the machine.
double independent(Device& device, const Tensor& x, const std::vector<Tensor>& y, int at_once) {
  std::vector<Tensor> out = y;
  Loop loop(device, kIterations, {.parallel_iterations = at_once},
            [&](std::int64_t i) { out[static_cast<std::size_t>(i)] = tanh(x.rows(i, 1)); });
  loop.run();
  Samples runs;
  for (int k = 0; k < 20; ++k) runs.add(seconds_of([&] { loop.run(); }));
  return runs.lowest();
}

bool run(const Options& options) {
  Results results("loops");
  results.setting("updates", std::to_string(kUpdates));
  results.setting("independent",
                  std::to_string(kIterations) + " of " + std::to_string(kElements) + " elements");
  Context context({.towers = "cpu:1", .threads_per_tower = 2});
  Device& device = context.device(0);
  device.bind_thread();
  Updates updates(device);
  const Tensor x = Tensor::zeros(Shape{kIterations, kElements}, DType::f32, device);
  const std::vector<Tensor> y(static_cast<std::size_t>(kIterations));
  Samples ops, loop, replayed, one, alone, two;
  double runs = 0;
  for (int r = 0; r < options.rounds; ++r) {
    ops.add(seconds_of([&] { updates.as_ops(); }) / kUpdates);
    loop.add(seconds_of([&] { updates.as_loop(); }) / kUpdates);
    replayed.add(seconds_of([&] { updates.replayed(); }) / kUpdates);
    one.add(seconds_of([&] { updates.in_one(); }) / kUpdates);
    runs += 4;
    alone.add(independent(device, x, y, 1));
    two.add(independent(device, x, y, 2));
  }
  results.figure("single", "one element, an op each", ops, "ns an update", 1e9);
  results.figure("carried", "  a carried loop, recorded and run", loop, "ns an update", 1e9);
  results.figure("captured", "  the recorded loop, run again", replayed, "ns an update", 1e9);
  results.figure("batched", "the same number of updates in one op", one, "ns an update", 1e9);
  results.figure("single_over_batched", "  op each / one op", ratio(ops, one), "x");
  results.figure("independent_1", "independent iterations, one at a time", alone, "us", 1e6);
  results.figure("independent_2", "  two at a time", two, "us", 1e6);
  results.figure("speed_up", "  one / two at a time", ratio(alone, two), "x");
  results.at_most("captured", 1000);
  results.at_least("single_over_batched", 100);
  results.at_least("speed_up", 1.6);
  results.write(options.json);
  return results.passed() && updates.total() == runs * kUpdates;
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
