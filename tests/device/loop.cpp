// SPDX-License-Identifier: MIT
#include "belfry/device/loop.h"

#include <atomic>
#include <thread>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/kernel.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

// x[i] = x[i] * 3 + a, for one or several elements.
struct Step {
  static constexpr const char* name = "step";
  float* x;
  float a;
  BELFRY_HD void operator()(std::size_t i) const { x[i] = x[i] * 3 + a; }
  void touches(Touches& t, std::size_t n) const { t.reads(x, n * 4).writes(x, n * 4); }
};

struct CopyOne {
  static constexpr const char* name = "copy_one";
  const float* from;
  float* to;
  BELFRY_HD void operator()(std::size_t i) const { to[i] = from[i]; }
  void touches(Touches& t, std::size_t n) const { t.reads(from, n * 4).writes(to, n * 4); }
};

constexpr Executor kExecutors[] = {Executor::in_place, Executor::lazy, Executor::threaded};

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("F81 independent iterations give the same result for every parallel_iterations") {
  for (const Executor e : kExecutors)
    for (const int cap : {1, 2, 3, 10, 1000}) {
      const auto device = make_cpu_device(0, 2, e);
      std::vector<float> x(64, 1);
      for (int repeat = 0; repeat < 2; ++repeat) {
        parallel_for(*device, 64, {.parallel_iterations = cap}, [&](std::int64_t i) {
          const auto k = static_cast<std::size_t>(i);
          launch_elements(device->main(), 1, Step{&x[k], static_cast<float>(i)});
          launch_elements(device->main(), 1, Step{&x[k], 0.5f});
        });
        device->synchronize();
      }
      for (int i = 0; i < 64; ++i) {
        float want = 1;
        for (int r = 0; r < 2; ++r) want = (want * 3 + static_cast<float>(i)) * 3 + 0.5f;
        CHECK(x[static_cast<std::size_t>(i)] == want);
      }
    }
}

TEST_CASE("F81 parallel_iterations = 0 and a negative count are ConfigErrors") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  CHECK_THROWS_AS(parallel_for(*device, 4, {.parallel_iterations = 0}, [](std::int64_t) {}),
                  ConfigError);
  CHECK_THAT(
      text_of([&] { parallel_for(*device, 4, {.parallel_iterations = 0}, [](std::int64_t) {}); }),
      Contains("parallel_iterations") && Contains("found 0") && Contains("at least 1"));
  CHECK_THROWS_AS(parallel_for(*device, -1, {}, [](std::int64_t) {}), ConfigError);
  CHECK_THROWS_AS(parallel_for(*device, 1, {}, LoopBody()), ConfigError);
  CHECK_THAT(text_of([&] { parallel_for(*device, 1, {}, LoopBody()); }),
             Contains("the body of a loop"));
  int calls = 0;
  parallel_for(*device, 0, {}, [&](std::int64_t) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("F80 overlapping writes are an error that names both iterations, and nothing has run") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  for (const int cap : {1, 2, 10}) {
    std::vector<float> x(100, 1);
    const auto loop = [&] {
      parallel_for(*device, 20, {.parallel_iterations = cap}, [&](std::int64_t i) {
        // Four elements each from 4 i on; iteration 7 from 26 on: one of 6's, 26 and 27 are 6's.
        const std::size_t first = i == 7 ? 26 : static_cast<std::size_t>(4 * i);
        launch_elements(device->main(), 4, Step{x.data() + first, 1});
      });
    };
    CHECK_THROWS_AS(loop(), DeviceError);
    const std::string text = text_of(loop);
    CHECK_THAT(text, Contains("iterations 6 and 7") && Contains("not independent"));
    CHECK_THAT(text, Contains("(step) writes bytes [8, 16) of the 16 that iteration 6 (step)"));
    CHECK_THAT(text, Contains("carried = true"));
    CHECK(x == std::vector<float>(100, 1));
  }
}

TEST_CASE("F80 a read of what another iteration writes is a dependence, reads of one are none") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  std::vector<float> x(10, 1), y(10, 0);
  const auto loop = [&](std::size_t from) {
    return [&, from] {
      parallel_for(*device, 9, {}, [&, from](std::int64_t i) {
        const auto k = static_cast<std::size_t>(i);
        launch_elements(device->main(), 1, CopyOne{i == 3 ? &x[from] : y.data() + 9, &x[k]});
      });
    };
  };
  CHECK_THAT(text_of(loop(5)),
             Contains("iterations 3 and 5") &&
                 Contains("writes bytes [0, 4) of the 4 that iteration 3 (copy_one) reads"));
  CHECK_THAT(text_of(loop(0)), Contains("iterations 0 and 3") && Contains("writes"));
  CHECK(x == std::vector<float>(10, 1));
  CHECK(text_of(loop(3)) == "no error");  // its own
  CHECK(text_of(loop(9)) == "no error");  // nobody writes that
}

TEST_CASE("F80 copies, fills and host calls say what they touch as kernels do") {
  for (const Executor e : kExecutors) {
    const auto device = make_cpu_device(0, 2, e);
    std::vector<float> x(4, 1), y(4, 2);
    using Put = std::function<void(Stream&)>;
    const auto both = [&](const Put& first, const Put& second) {
      return text_of([&] {
        parallel_for(*device, 2, {},
                     [&](std::int64_t i) { (i == 0 ? first : second)(device->main()); });
      });
    };
    const Put copy = [&](Stream& s) { s.copy(x.data(), y.data(), 16); },
              fill_x = [&](Stream& s) { s.fill(x.data() + 3, 0, 4); },
              fill_y = [&](Stream& s) { s.fill(y.data(), 0, 16); },
              reads_y = [&](Stream& s) { s.run(Touches().reads(y.data(), 16), [] {}); },
              writes_y = [&](Stream& s) { s.run(Touches().writes(y.data(), 16), [] {}); };
    CHECK_THAT(both(copy, fill_x), Contains("iteration 1 (fill) writes bytes [12, 16) of the 16 "
                                            "that iteration 0 (copy) writes"));
    CHECK_THAT(both(copy, fill_y), Contains("(fill) writes") && Contains("(copy) reads"));
    CHECK_THAT(both(copy, writes_y), Contains("(host call) writes") && Contains("(copy) reads"));
    CHECK_THAT(both(fill_y, reads_y), Contains("(host call) reads") && Contains("(fill) writes"));
    CHECK(both(copy, reads_y) == "no error");
    device->synchronize();
    CHECK(x == std::vector<float>(4, 2));
    // Between a read and the recorded loop nothing else is known.
    Loop loop(*device, 1, {}, [&](std::int64_t) { copy(device->main()); });
    device->main().begin_capture();
    loop.run();
    const auto graph = device->main().end_capture();
    device->main().replay(*graph);
    if (e == Executor::lazy) {
      CHECK_THROWS_AS(device->main().host_access(Touches().writes(y.data(), 4)), DeviceError);
      CHECK_THROWS_AS(device->main().host_access(Touches().reads(x.data(), 4)), DeviceError);
      CHECK_NOTHROW(device->main().host_access(Touches().reads(y.data(), 4)));
    }
    device->synchronize();
  }
}

TEST_CASE("F80 of every pair of overlapping ranges one is found, as by comparing all") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  std::vector<float> x(200);
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  int dependent = 0;
  for (int round = 0; round < 2000; ++round) {
    struct Range {
      std::size_t lo, n;
      bool write;
    };
    std::vector<std::vector<Range>> ranges(2 + random(4));
    for (auto& of : ranges)
      for (std::uint32_t k = 0; k < 1 + random(3); ++k)
        of.push_back({random(180), 1 + random(18), random(3) == 0});
    bool overlap = false;
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        for (const Range& a : ranges[i])
          for (const Range& b : ranges[j])
            overlap = overlap || ((a.write || b.write) && a.lo < b.lo + b.n && b.lo < a.lo + a.n);
    const auto body = [&](std::int64_t i) {
      for (const Range& r : ranges[static_cast<std::size_t>(i)]) {
        Touches t;
        r.write ? t.writes(&x[r.lo], r.n * 4) : t.reads(&x[r.lo], r.n * 4);
        device->main().run(t, [] {});
      }
    };
    const bool found = text_of([&] {
                         parallel_for(*device, static_cast<std::int64_t>(ranges.size()), {}, body);
                       }) != "no error";
    REQUIRE(found == overlap);
    dependent += overlap ? 1 : 0;
  }
  CHECK(dependent > 400);
  CHECK(dependent < 1600);
}

TEST_CASE("F80 carried iterations run in order") {
  for (const Executor e : kExecutors) {
    const auto device = make_cpu_device(0, 2, e);
    float x = 0, want = 0;
    Loop loop(*device, 50, {.carried = true}, [&](std::int64_t i) {
      launch_elements(device->main(), 1, Step{&x, static_cast<float>(i % 7)});
      if (i % 10 == 9) device->main().fill(&x, 0, 4);
    });
    CHECK(loop.lanes() == 1);
    CHECK(x == 0);
    for (int r = 0; r < 2; ++r) {
      loop.run();
      launch_elements(device->main(), 1, Step{&x, 1});
      device->synchronize();
      for (int i = 0; i < 50; ++i) want = i % 10 == 9 ? 0 : want * 3 + static_cast<float>(i % 7);
      want = want * 3 + 1;
      CHECK(x == want);
    }
  }
}

TEST_CASE("F80 independent iterations run at the same time") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  for (const int cap : {1, 2}) {
    std::atomic<int> inside{0};
    bool met[2] = {false, false};
    Loop loop(*device, 2, {.parallel_iterations = cap}, [&](std::int64_t i) {
      device->main().run(Touches().writes(&met[i], 1), [&inside, seen = &met[i]] {
        ++inside;
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
        while (std::chrono::steady_clock::now() < until && inside.load() < 2)
          std::this_thread::yield();
        *seen = inside.load() == 2;
        const auto settled = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
        while (std::chrono::steady_clock::now() < settled) std::this_thread::yield();
        --inside;
      });
    });
    CHECK(loop.lanes() == cap);
    loop.run();
    CHECK(met[0] == (cap == 2));
    CHECK(met[1] == (cap == 2));
  }
}

TEST_CASE("a loop is recorded once, runs again without its body, and in a recorded step") {
  for (const Executor e : kExecutors) {
    const auto device = make_cpu_device(0, 2, e);
    std::vector<float> x(8, 1);
    int calls = 0;
    Loop loop(*device, 8, {}, [&](std::int64_t i) {
      ++calls;
      launch_elements(device->main(), 1, Step{&x[static_cast<std::size_t>(i)], 1});
    });
    CHECK(loop.operations() == 8);
    CHECK(x == std::vector<float>(8, 1));
    loop.run();
    loop.run();
    device->synchronize();
    CHECK(x == std::vector<float>(8, 13));
    device->main().begin_capture();
    loop.run();
    parallel_for(*device, 8, {}, [&](std::int64_t i) {
      launch_elements(device->main(), 1, Step{&x[static_cast<std::size_t>(i)], 0});
    });
    const auto graph = device->main().end_capture();
    CHECK(x == std::vector<float>(8, 13));
    for (int k = 0; k < 2; ++k) device->main().replay(*graph);
    if (e == Executor::lazy)  // the recorded loops are known to use it
      CHECK_THROWS_AS(device->main().host_access(Touches().reads(&x[3], 4)), DeviceError);
    device->synchronize();
    CHECK(x == std::vector<float>(8, ((13 * 3 + 1) * 3 * 3 + 1) * 3));
    CHECK(calls == 8);
  }
}

TEST_CASE("the error of the lowest iteration comes out, that of a body at once") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  int x[6] = {};
  const auto body = [&](std::int64_t i) {
    device->main().run(Touches().writes(&x[i], 4), [&x, i] {
      if (i >= 2) throw DataError("iteration " + std::to_string(i));
      x[i] = 1;
    });
  };
  for (const int cap : {1, 2})
    for (const bool carried : {false, true})
      CHECK(text_of([&] {
              parallel_for(*device, 6, {.parallel_iterations = cap, .carried = carried}, body);
            }) == "iteration 2 of a loop of 6 iterations: iteration 2");
  CHECK(x[1] == 1);
  for (const Executor e : {Executor::lazy, Executor::threaded}) {
    const auto other = make_cpu_device(0, 2, e);
    CHECK(text_of([&] {
            parallel_for(*other, 6, {.parallel_iterations = 1, .name = "sums"},
                         [&](std::int64_t i) {
                           other->main().run(Touches().writes(&x[i], 4), [i] {
                             if (i >= 2) throw DataError("no");
                           });
                         });
            other->synchronize();
          }) == "iteration 2 of loop 'sums': no");
  }
  int y = 0;
  CHECK_THAT(text_of([&] {
               parallel_for(*device, 6, {}, [&](std::int64_t i) {
                 if (i == 4) throw DataError("in the body");
                 device->main().run(Touches().reads(&y, 4), [&y] { y = 1; });
               });
             }),
             Contains("iteration 4 of a loop of 6 iterations: in the body"));
  try {
    parallel_for(*device, 6, {.name = "mine"}, [](std::int64_t i) {
      if (i == 1) throw std::out_of_range("place 7");
    });
    FAIL("no error");
  } catch (const TowerError& e) {
    CHECK(std::string(e.what()) == "iteration 1 of loop 'mine': place 7");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
    try {  // a tower's error keeps what is inside
      rethrow_located(std::current_exception(), 0, 1, 2);
    } catch (const TowerError& located) {
      CHECK_THAT(located.what(), Contains("loop 'mine': place 7") && Contains("tower 1"));
      CHECK_THROWS_AS(std::rethrow_if_nested(located), std::out_of_range);
    }
  }
  CHECK(y == 0);
  device->main().run({}, [&y] { y = 2; });  // the main stream is itself again
  CHECK(y == 2);
}

TEST_CASE("in an iteration the host's accesses are checked against what came before the loop") {
  const auto device = make_cpu_device(0, 1, Executor::lazy);
  float x = 0;
  launch_elements(device->main(), 1, Step{&x, 1});
  CHECK_THROWS_AS(
      parallel_for(*device, 1, {},
                   [&](std::int64_t) { device->main().host_access(Touches().writes(&x, 4)); }),
      DeviceError);
  device->synchronize();
  CHECK(x == 1);
}

TEST_CASE("what cannot be recorded in an iteration is an error that says so") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const auto event = device->event();
  const auto in = [&](const std::function<void()>& f) {
    return text_of([&] { parallel_for(*device, 1, {}, [&](std::int64_t) { f(); }); });
  };
  float x = 0;
  CHECK_THAT(in([&] { device->main().synchronize(); }), Contains("in an iteration of a loop"));
  CHECK_THAT(in([&] { device->main().record(*event); }), Contains("event"));
  CHECK_THAT(in([&] { device->main().wait(*event); }), Contains("event"));
  CHECK_THAT(in([&] { device->main().fetch(&x, &x, 4); }),
             Contains("a tensor is read") && Contains("or a loop") && Contains("results after it"));
  CHECK_THAT(in([&] { parallel_for(*device, 1, {}, [](std::int64_t) {}); }),
             Contains("a loop in an iteration of a loop"));
  const auto other = make_cpu_device(1, 1, Executor::in_place);
  CHECK_THAT(in([&] {
               launch_elements(other->main(), 1, Step{&x, 1});
             }),
             Contains("works on another device") && Contains("found cpu:1"));
  launch_elements(other->main(), 0, Step{&x, 1});  // outside it may be used
  Loop outside(*device, 1, {}, [&](std::int64_t) {
    launch_elements(device->main(), 1, Step{&x, 1});
  });
  CHECK_THAT(in([&] { outside.run(); }), Contains("a run of a loop in an iteration"));
  CHECK(x == 0);
}
