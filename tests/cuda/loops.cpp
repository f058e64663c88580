// SPDX-License-Identifier: MIT
// Loops on the streams of a GPU, as given and as a graph, beside the CPU; tensors between two GPUs.
#include <atomic>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/elementwise/tanh.h"
#include "belfry/autodiff/ops/index/scatter_add.h"
#include "belfry/autodiff/ops/index/scatter_update.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/loop.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::sim;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;
const std::vector<std::string> kNothing;
constexpr std::int64_t kRows = 12;

// Three runs: the third is a replay of the second's graph. A product in each iteration has scratch
// memory of the library.
Values run_loop(Device& d, const LoopOptions& options, int* host_calls) {
  const Tensor table = Tensor::from(sample_values(kRows * 4), Shape{kRows, 4}, DType::f32, d),
               weight = Tensor::from(sample_values(16, 1.0, 2), Shape{4, 4}, DType::f32, d),
               bias = Tensor::zeros(Shape{4}, DType::f32, d),
               zero = Tensor::zeros(Shape{1}, DType::i32, d);
  std::atomic<int> calls{0};
  Loop loop(d, kRows, options, [&](std::int64_t i) {
    const Tensor row = options.carried ? table.rows(0, 1) : table.rows(i, 1);
    const Tensor y = tanh(linear(row, weight, bias));
    scatter_add(row, zero, y, Duplicates::sum);
    scatter_update(row, zero, mul(row, y), Duplicates::last);
    if (i % 4 == 1) d.main().fill(y.raw(), 0, y.bytes());
    d.main().run({}, [&calls] { ++calls; });
  });
  CHECK(calls == 0);
  for (int r = 0; r < 3; ++r) {
    const Tensor more = tanh(table);
    d.main().copy(table.raw(), more.raw(), table.bytes());
    loop.run();
  }
  Values out = mul(table, table).to_vector();
  *host_calls = calls;
  return out;
}

void require_close(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-5));
}

}  // namespace

TEST_CASE("a loop gives on a GPU what it gives on the CPU, with every parallel_iterations",
          "[cuda][loops]") {
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  for (const bool carried : {false, true}) {
    int calls = 0;
    const Values want = run_loop(*cpu, {.parallel_iterations = 1, .carried = carried}, &calls);
    CHECK(calls == 3 * kRows);
    Values first;
    for (const int cap : {1, 2, 5, 100})
      for (std::uint64_t seed = 1; seed <= seeds(5); ++seed) {
        Gpus gpus(1, {.seed = seed});
        {
          const std::unique_ptr<Device> gpu = gpus.device();
          gpu->bind_thread();
          const Values got =
              run_loop(*gpu, {.parallel_iterations = cap, .carried = carried}, &calls);
          require_close(got, want);
          if (first.empty()) first = got;
          CHECK(got == first);
          CHECK(calls == 3 * kRows);
        }
        REQUIRE(gpus.faults() == kNothing);
      }
  }
}

TEST_CASE("on a GPU a step that is recorded needs a loop of its own", "[cuda][loops]") {
  Gpus gpus(1);
  {
    const std::unique_ptr<Device> gpu = gpus.device();
    gpu->bind_thread();
    const Tensor x = Tensor::from({1, 2, 3, 4}, Shape{4, 1}, DType::f32, *gpu),
                 one = Tensor::from({1}, Shape{1, 1}, DType::f32, *gpu),
                 zero = Tensor::zeros(Shape{1}, DType::i32, *gpu);
    const LoopBody body = [&](std::int64_t i) {
      scatter_add(x.rows(i, 1), zero, one, Duplicates::sum);
    };
    Loop loop(*gpu, 4, {}, body);
    loop.run();
    gpu->main().begin_capture();
    CHECK_THROWS_WITH(parallel_for(*gpu, 4, {}, body), Contains("make a Loop before the step"));
    loop.run();
    loop.run();
    const std::unique_ptr<Graph> graph = gpu->main().end_capture();
    gpu->main().replay(*graph);
    gpu->main().replay(*graph);
    CHECK(x.to_vector() == Values{6, 7, 8, 9});
    parallel_for(*gpu, 4, {.parallel_iterations = 3}, body);
    CHECK(x.to_vector() == Values{7, 8, 9, 10});
    // Indices are read at once there, which no iteration can.
    CHECK_THROWS_AS(scatter_add(x, Tensor::zeros(Shape{2}, DType::i32, *gpu),
                                Tensor::zeros(Shape{2, 1}, DType::f32, *gpu), Duplicates::reject),
                    DataError);
    CHECK_THROWS_AS(
        parallel_for(*gpu, 1, {},
                     [&](std::int64_t) { scatter_add(x, zero, one, Duplicates::reject); }),
        DeviceError);
  }
  CHECK(gpus.faults() == kNothing);
}

TEST_CASE("gradients over two GPUs have the bits of one", "[cuda][loops]") {
  const auto run = [](Device& a, Device& b) {
    Tape tape;
    const Scope scope({.tape = &tape});
    const Tensor x = tape.leaf(Tensor::from(sample_values(6), Shape{6}, DType::f32, a));
    const Tensor t = tanh(x).to(b), moved = x.to(b);  // recorded in the order of their use
    const Tensor y = mul(t, moved);
    tape.backward(sum(mul(y.to(a), x)));
    Values out = tape.grad(x).to_vector();
    CHECK(tape.grad(x).device().id() == a.id());
    return out;
  };
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    Gpus gpus(2, {.seed = seed});
    {
      const auto one = gpus.device(0), two = gpus.device(1);
      one->bind_thread();
      CHECK(run(*one, *two) == run(*one, *one));
    }
    CHECK(gpus.faults() == kNothing);
  }
}
