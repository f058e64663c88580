// SPDX-License-Identifier: MIT
#include "belfry/device/map_devices.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "belfry/core/error.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

TEST_CASE("F84 results come in the order of the list, with their devices; the host combines") {
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded}) {
    Context context({.towers = "cpu:3", .threads_per_tower = 1, .executor = e});
    std::vector<float> sums(3, 0);
    const auto sum_of = [&](Device& device) {
      float* const to = &sums[static_cast<std::size_t>(device.id().index)];
      device.main().run(Touches().writes(to, 4),
                        [to, i = device.id().index] { *to = static_cast<float>(10 + i); });
      return to;  // read by the host afterwards
    };
    const auto results = map_devices(context, {2, 0}, sum_of);
    REQUIRE(results.size() == 2);
    CHECK(results[0].tower == 2);
    CHECK(results[0].device == DeviceId{Backend::cpu, 2});
    CHECK(*results[0].value == 12);
    CHECK(results[1].tower == 0);
    CHECK(name_of(results[1].device) == "cpu:0");
    CHECK(*results[1].value == 10);
    CHECK(sums[1] == 0);
    const float total = map_devices(context, {0, 1, 2}, sum_of, [](const auto& all) {
      float t = 0;
      for (const auto& r : all) t = t * 100 + *r.value;  // depends on their order
      return t;
    });
    CHECK(total == 101112);
  }
}

TEST_CASE("F84 listed devices work at the same time") {
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  std::atomic<int> inside{0};
  const auto meet = [&](Device&) {
    ++inside;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (inside.load() < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return inside.load() == 2;
  };
  for (const auto& r : map_devices(context, {1, 0}, meet)) CHECK(r.value);
}

TEST_CASE("F84 wrong lists and errors of a device") {
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  const auto nothing = [](Device&) { return 0; };
  CHECK_THROWS_AS(map_devices(context, {0, 2}, nothing), ConfigError);
  CHECK_THROWS_WITH(map_devices(context, {0, 2}, nothing),
                    Contains("tower 2") && Contains("[0, 2)"));
  CHECK_THROWS_WITH(map_devices(context, {-1}, nothing), Contains("tower -1"));
  CHECK_THROWS_WITH(map_devices(context, {1, 1}, nothing), Contains("tower 1 twice"));
  CHECK(map_devices(context, {}, nothing).empty());
  const auto fails = [](Device& device) -> int { throw DataError("on " + name_of(device.id())); };
  CHECK_THROWS_AS(map_devices(context, {1, 0}, fails), DataError);
  CHECK_THROWS_WITH(map_devices(context, {1, 0}, fails), "on cpu:1 [tower 1]");
  const auto foreign = [](Device&) -> int { throw std::runtime_error("mine"); };
  try {
    map_devices(context, {1}, foreign);
    FAIL("it does not throw");
  } catch (const TowerError& error) {
    CHECK(error.text().tower == 1);
    CHECK_THROWS_WITH(std::rethrow_if_nested(error), "mine");
  }
}
