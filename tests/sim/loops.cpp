// SPDX-License-Identifier: MIT
// Loops and copies between devices under any order of execution, with waits left out, and with
// ranges that are not declared.
#include <memory>
#include <vector>

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
#include "belfry/device/map_devices.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/declared.h"
#include "belfry/tests/sim/platform.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

using Values = std::vector<double>;
const std::vector<std::string> kNothing;

// Values of all kinds, on up to two devices.
using Program = std::function<Values(Context&)>;

// A table whose rows are scaled before, changed by independent iterations, twice, and read after.
Values loop_program(Context& context, int cap, const char* kind = "") {
  Device& d = context.device(0);
  constexpr std::int64_t kRows = 12;
  const Tensor table = Tensor::from(sample_values(kRows * 3), Shape{kRows, 3}, DType::f32, d),
               values = Tensor::from({1, 2, 3}, Shape{1, 3}, DType::f32, d),
               zero = Tensor::zeros(Shape{1}, DType::i32, d);
  const bool carried = std::string(kind) == "carried";
  Loop loop(d, kRows, {.parallel_iterations = cap, .carried = carried}, [&](std::int64_t i) {
    const Tensor row = table.rows(i, 1);
    const Tensor twice = mul(tanh(row), values);  // memory of the iteration
    scatter_add(carried ? table : row, zero, twice, Duplicates::sum);
    scatter_update(row, zero, mul(twice, twice), Duplicates::last);
  });
  for (int r = 0; r < 2; ++r) {
    const Tensor scaled = mul(table, table);  // before, on the main stream
    d.main().copy(table.raw(), scaled.raw(), table.bytes());
    loop.run();
  }
  const Tensor after = tanh(table);
  return after.to_vector();
}

// Without a tape nothing keeps what was copied: its memory is written again at once.
Values copies_program(Context& context) {
  Device &a = context.device(0), &b = context.device(context.towers() - 1);
  const Tensor on_a = Tensor::from(sample_values(24), Shape{4, 6}, DType::f32, a),
               on_b = Tensor::from(sample_values(24), Shape{4, 6}, DType::f32, b);
  Tensor moved = on_b;
  for (int k = 0; k < 3; ++k) {
    const Tensor back = mul(moved, on_b).to(a);
    mul(on_b, on_b);
    moved = tanh(mul(back, on_a)).to(b);
    mul(mul(on_a, on_a), on_a);
  }
  const Values out = moved.to_vector();
  a.synchronize();
  return out;
}

// Two layers on two devices, back and forth.
Values devices_program(Context& context) {
  Device &a = context.device(0), &b = context.device(context.towers() - 1);
  Tape tape;
  const Scope scope({.tape = &tape});
  const auto leaf = [&](const Shape& shape, std::uint64_t seed, Device& device) {
    return tape.leaf(
        Tensor::from(sample_values(shape.size(), 1.0, seed), shape, DType::f32, device));
  };
  const Tensor x = leaf({4, 6}, 1, a), w1 = leaf({6, 6}, 2, a), w2 = leaf({6, 6}, 3, b);
  const Tensor b1 = Tensor::zeros(Shape{6}, DType::f32, a),
               b2 = Tensor::zeros(Shape{6}, DType::f32, b);
  Tensor h = x;
  for (int layer = 0; layer < 4; ++layer) {
    const bool first = layer % 2 == 0;
    h = h.to(first ? a : b);
    h = tanh(linear(h, first ? w1 : w2, first ? b1 : b2));
  }
  Values out = h.to_vector();
  tape.backward(sum(mul(h, h)));
  for (const Tensor* t : {&x, &w1, &w2})
    for (const double g : tape.grad(*t).to_vector()) out.push_back(g);
  return out;
}

struct Simulated {
  Values values;
  std::vector<std::string> reports;
  std::map<int, std::uint64_t> waits;
  std::set<std::pair<int, std::uint64_t>> idle;
  double time = 0;
};

Simulated simulate(const Program& program, int towers, const SchedulerOptions& options,
                   bool separate = false) {
  const auto platform = std::make_shared<SimPlatform>(options, separate);
  Simulated out;
  {
    Context context(
        {.towers = "cpu:" + std::to_string(towers), .threads_per_tower = 1, .platform = platform});
    out.values = program(context);
  }
  const Scheduler& s = platform->scheduler();
  out.reports = s.reports();
  out.waits = s.waits();
  out.idle = s.idle_waits();
  out.time = s.critical_path();
  return out;
}

Values plain(const Program& program, int towers) {
  Context context({.towers = "cpu:" + std::to_string(towers), .threads_per_tower = 1});
  return program(context);
}

// Those of a program that are dropped without a report and without another result.
std::vector<std::string> unnoticed(const Program& program, int towers, std::uint64_t& dropped) {
  std::vector<std::string> out;
  for (std::uint64_t seed = 1; seed <= seeds(3); ++seed) {
    const Simulated whole = simulate(program, towers, {.seed = seed});
    REQUIRE(whole.reports == kNothing);
    for (const auto& [device, n] : whole.waits)
      for (std::uint64_t k = 1; k <= n; ++k) {
        if (whole.idle.count({device, k}) != 0) continue;
        ++dropped;
        const Simulated got = simulate(program, towers, {.seed = seed, .drop_wait = {device, k}});
        if (got.reports.empty() && got.values == whole.values)
          out.push_back("wait " + std::to_string(k) + " of device " + std::to_string(device));
      }
  }
  return out;
}

}  // namespace

TEST_CASE("loops: any order of execution gives the same, without a report", "[loops]") {
  for (const char* kind : {"", "carried"})
    for (const int cap : {1, 2, 4, 100}) {
      const Program program = [&](Context& c) { return loop_program(c, cap, kind); };
      const Values want = plain([&](Context& c) { return loop_program(c, 1, kind); }, 1);
      for (std::uint64_t seed = 1; seed <= seeds(50); ++seed)
        for (const bool separate : {false, true}) {
          const Simulated got = simulate(program, 1, {.seed = seed}, separate);
          REQUIRE(got.reports == kNothing);
          REQUIRE(got.values == want);
        }
    }
}

TEST_CASE("loops: each wait dropped in turn is reported under every seed", "[loops]") {
  std::uint64_t dropped = 0;
  CHECK(unnoticed([](Context& c) { return loop_program(c, 4); }, 1, dropped) == kNothing);
  CHECK(dropped == 12 * seeds(3));  // three streams beside the main one, two waits each, two runs
}

TEST_CASE("loops: iterations on several streams overlap in time", "[loops]") {
  const auto time = [](int cap) {
    return simulate(
               [=](Context& c) {
                 Device& d = c.device(0);
                 std::vector<float> v(16 * 1000, 0.f);
                 Loop loop(d, 16, {.parallel_iterations = cap}, [&](std::int64_t i) {
                   float* const p = v.data() + i * 1000;
                   d.main().run(Touches().writes(p, 4000), [p] { p[0] = 1; });
                 });
                 loop.run();
                 d.synchronize();
                 return Values{};
               },
               1, {.seed = 1})
        .time;
  };
  CHECK(time(1) == Approx(4 * time(4)));
  CHECK(time(1) == Approx(16 * time(16)));
}

TEST_CASE("copies between devices: any order gives the bits of one device", "[loops]") {
  for (const auto& program : {devices_program, copies_program}) {
    const Values want = plain(program, 1);
    CHECK(plain(program, 2) == want);
    for (std::uint64_t seed = 1; seed <= seeds(50); ++seed)
      for (const bool separate : {false, true}) {
        const Simulated got = simulate(program, 2, {.seed = seed}, separate);
        REQUIRE(got.reports == kNothing);
        REQUIRE(got.values == want);
      }
  }
}

TEST_CASE("copies between devices: each wait dropped in turn is reported under every seed",
          "[loops]") {
  std::uint64_t dropped = 0;
  CHECK(unnoticed(copies_program, 2, dropped) == kNothing);
  CHECK(dropped == 12 * seeds(3));  // six copies, two waits each
}

TEST_CASE("map_devices waits for its devices", "[loops]") {
  const Program program = [](Context& c) {
    std::vector<float> v(8, 0.f);
    return map_devices(
        c, {1, 0},
        [&](Device& d) {
          float* const p = v.data() + 4 * d.id().index;
          d.main().run(Touches().writes(p, 16), [p] { p[0] = 2; });
          return p;
        },
        [&](const auto& results) {
          Values out;
          for (const auto& r : results) {
            c.device(r.tower).main().host_access(Touches().reads(r.value, 16));
            out.push_back(r.value[0]);
          }
          return out;
        });
  };
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    const Simulated got = simulate(program, 2, {.seed = seed});
    CHECK(got.reports == kNothing);
    CHECK(got.values == Values{2, 2});
    for (const int device : {0, 1})
      CHECK_FALSE(simulate(program, 2, {.seed = seed, .drop_sync = {device, 1}}).reports.empty());
  }
}

namespace {

// x[i] += y[i], with or without what it reads.
struct AddTo {
  static constexpr const char* name = "add_to";
  float* x;
  const float* y;
  bool says;
  BELFRY_HD void operator()(std::size_t i) const { x[i] += y[i]; }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * 4).writes(x, n * 4);
    if (says) t.reads(y, n * 4);
  }
};

}  // namespace

TEST_CASE("loops: a range that an iteration does not declare is found", "[loops]") {
  for (const bool says : {true, false}) {
    DeclaredPlatform platform;
    const std::unique_ptr<Device> device = platform.device(0, 1);
    const auto run = [&](Device& d) {
      const Tensor x = Tensor::zeros(Shape{8}, DType::f32, d),
                   y = Tensor::from({1, 2, 3, 4, 5, 6, 7, 8}, Shape{8}, DType::f32, d);
      // Undeclared, the read of what the neighbour writes is no dependence.
      parallel_for(d, 7, {}, [&](std::int64_t i) {
        launch_elements(d.main(), 1, AddTo{x.data<float>() + i, y.data<float>() + i, says});
      });
      return x.to_vector();
    };
    CHECK((run(*device) == Values{1, 2, 3, 4, 5, 6, 7, 0}) == says);
    DeclaredPlatform whole;
    Context context({.towers = "cpu:1",
                     .threads_per_tower = 1,
                     .platform = std::shared_ptr<Platform>(&whole, [](Platform*) {})});
    for (const int cap : {1, 4}) {
      CHECK(loop_program(context, cap) ==
            plain([&](Context& c) { return loop_program(c, cap); }, 1));
      CHECK(whole.memory().reports() == kNothing);
    }
  }
}
