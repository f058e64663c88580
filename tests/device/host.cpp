// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "belfry/core/error.h"
#include "belfry/device/context.h"
#include "belfry/device/half.h"
#include "belfry/device/tower_list.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/expect.h"

using namespace belfry;
using Catch::Matchers::Contains;

TEST_CASE("run: every index on its own thread, the same one every time, index 0 the caller's") {
  const auto host = make_thread_host();
  std::vector<std::thread::id> first(4), again(4);
  host->run(4, [&](int i) { first[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
  host->run(4, [&](int i) { again[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
  CHECK(first == again);
  CHECK(first[0] == std::this_thread::get_id());
  CHECK(std::set<std::thread::id>(first.begin(), first.end()).size() == 4);
  std::vector<std::thread::id> fewer(2);
  host->run(2, [&](int i) { fewer[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
  CHECK((fewer[0] == first[0] && fewer[1] == first[1]));
}

TEST_CASE("run: all indices end, the lowest's exception comes out, nesting is refused") {
  const auto host = make_thread_host();
  std::atomic<int> ended{0};
  CHECK_THROWS_WITH(host->run(4,
                              [&](int i) {
                                ++ended;
                                if (i >= 2) throw DataError("from " + std::to_string(i));
                              }),
                    Contains("from 2"));
  CHECK(ended == 4);
  CHECK_THROWS_AS(host->run(1, [&](int) { host->run(1, [](int) {}); }), DeviceError);
  CHECK_THROWS_WITH(host->run(1, [&](int) { host->run(1, [](int) {}); }),
                    Contains("the context's towers are at work") && Contains("inside of a step") &&
                        Contains("by a second thread") && Contains("a Context for each thread"));
  host->run(1, [](int) {});  // usable afterwards
}

TEST_CASE("wait wakes on notify, long after it has gone to sleep") {
  const auto host = make_thread_host();
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> stage{0};
    host->run(2, [&](int i) {
      if (i == 0) {
        if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        stage.store(1);
        host->notify();
        host->wait([&] { return stage.load() == 2; });
      } else {
        host->wait([&] { return stage.load() == 1; });
        stage.store(2);
        host->notify();
      }
    });
    CHECK(stage == 2);
  }
}

TEST_CASE("a thread that cannot be started is a DeviceError, and the host stays usable") {
  pthread_attr_t usual, huge;  // no address space has room for such a stack
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
  const auto host = make_thread_host();
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  const auto nothing = [](void*) {};
  CHECK_THROWS_AS(host->run(3, [](int) {}), DeviceError);
  CHECK_THROWS_AS(host->spawn(nothing, nullptr), DeviceError);
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  std::atomic<int> ran{0};
  host->run(3, [&](int) { ++ran; });
  host->join(host->spawn(nothing, nullptr));
  CHECK(ran == 3);
}

TEST_CASE("spawned threads run beside and are joined") {
  const auto host = make_thread_host();
  std::atomic<bool> go{false}, done{false};
  struct Arg {
    Host& host;
    std::atomic<bool>&go, &done;
  } arg{*host, go, done};
  const std::uint64_t id = host->spawn(
      [](void* a) {
        auto& x = *static_cast<Arg*>(a);
        x.host.wait([&] { return x.go.load(); });
        x.done.store(true);
      },
      &arg);
  CHECK_FALSE(done);
  go.store(true);
  host->notify();
  host->join(id);
  CHECK(done);
}

TEST_CASE("B43 towers: counts, and errors that name what is accepted") {
  CHECK(parse_towers("cpu:1").count == 1);
  CHECK(parse_towers("cpu:16").count == 16);
  CHECK(parse_towers("cuda:all").count == 0);
  CHECK(parse_towers("cuda:0,1").gpus == std::vector<int>{0, 1});
  CHECK(parse_towers("cuda:2").gpus == std::vector<int>{2});
  CHECK(parse_towers("cuda:0x3,2").gpus == std::vector<int>{0, 0, 0, 2});
  CHECK(parse_towers("cuda:0x2,1x2").gpus == std::vector<int>{0, 0, 1, 1});
  CHECK(parse_towers("cuda:0x2,1x2").count == 4);
  CHECK(parse_towers("cuda:1,0x2,1").gpus == std::vector<int>{1, 0, 0, 1});
  CHECK(parse_towers("cuda-sim:3").simulated);
  CHECK(parse_towers("cuda-sim:3").gpus == std::vector<int>{0, 1, 2});
  for (const char* bad : {"",
                          "cpu",
                          "cpu:",
                          "cpu:0",
                          "cpu:-1",
                          "cpu:2x",
                          "gpu:1",
                          "cpu:1000000",
                          "2",
                          "cuda",
                          "cuda:",
                          "cuda:-1",
                          "cuda:0,",
                          "cuda:,0",
                          "cuda:0x0",
                          "cuda:x2",
                          "cuda:0x2x2",
                          "cuda:0 ,1",
                          "cuda:0x1000,1x1000",
                          "cuda-sim:0"})
    CHECK_THROWS_AS(parse_towers(bad), ConfigError);
  CHECK_THROWS_WITH(parse_towers("cpu:0"), Contains("cpu:0") && Contains("cpu:N") &&
                                               Contains("\"cuda:0x2,1x2\" (two on each)"));
  CHECK_THROWS_AS(Context({.towers = "cuda-sim:2"}), ConfigError);
  CHECK_THROWS_AS(Context({.towers = "cpu:1", .precision = Precision::tf32}), ConfigError);
}

TEST_CASE("a context owns a device a tower and warns when oversubscribed") {
  std::vector<std::string> lines;
  Log log([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warn) lines.emplace_back(text);
  });
  Context context({.towers = "cpu:3", .threads_per_tower = 1000, .log = log});
  CHECK(context.towers() == 3);
  CHECK(context.device(2).id() == DeviceId{Backend::cpu, 2});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("3 towers x 1000 threads") && Contains("oversubscribed"));
  CHECK_THROWS_AS(Context({.towers = "cpu:1", .threads_per_tower = -1}), ConfigError);
  CHECK(Context({.towers = "cpu:1000"}).options().threads_per_tower == 1);
}

TEST_CASE("half and bfloat16 round to nearest even and keep special values") {
  CHECK(Half(65504.f).bits == 0x7bff);
  CHECK(Half(65519.f).bits == 0x7bff);
  CHECK(Half(65520.f).bits == 0x7c00);
  CHECK(Half(0x1p-24f).bits == 1);
  CHECK(Half(0x1p-25f).bits == 0);    // a tie, to even
  CHECK(Half(0x1.8p-24f).bits == 2);  // a tie, to even
  CHECK(Half(1.f + 0x1p-11f).bits == 0x3c00);
  CHECK(Half(1.f + 0x1.8p-10f).bits == 0x3c02);
  CHECK(std::isnan(static_cast<float>(Half(std::nanf("")))));
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    Half h;
    h.bits = static_cast<std::uint16_t>(b);
    if ((b & 0x7fffu) <= 0x7c00u) REQUIRE(Half(static_cast<float>(h)).bits == b);
    BFloat16 f;
    f.bits = static_cast<std::uint16_t>(b);
    if ((b & 0x7fffu) <= 0x7f80u) REQUIRE(BFloat16(static_cast<float>(f)).bits == b);
  }
  CHECK(BFloat16(1.f + 0x1p-8f).bits == 0x3f80);
  CHECK(BFloat16(1.f + 0x1.8p-7f).bits == 0x3f82);
  CHECK(BFloat16(3.4e38f).bits == 0x7f80);
}

TEST_CASE("shapes check their extents") {
  CHECK(Shape{2, 3, 4}.size() == 24);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{0, 5}.size() == 0);
  CHECK(Shape{2, 3}[-1] == 3);
  CHECK(Shape{2, 3}.text() == "[2, 3]");
  CHECK(Shape{2, 3}.with(0, 7) == Shape{7, 3});
  CHECK_THROWS_AS((Shape{2, 3}[2]), GradientError);
  CHECK_THROWS_AS((Shape{-1}), GradientError);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1}), GradientError);
}

TEST_CASE("a tower that is not there is a ConfigError with the towers there are") {
  const Context two({.towers = "cpu:2", .threads_per_tower = 1}), one({.threads_per_tower = 1});
  CHECK(two.device(1).id().index == 1);
  for (const int tower : {-1, 2, 9}) CHECK_THROWS_AS(two.device(tower), ConfigError);
  CHECK_THROWS_WITH(two.device(9),
                    "device of a tower: found tower 9, expected 0 to 1 of towers = "
                    "\"cpu:2\"");
  CHECK_THROWS_WITH(one.device(1),
                    "device of a tower: found tower 1, expected 0, the only one of "
                    "towers = \"cpu:1\"");
}
