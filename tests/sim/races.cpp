// SPDX-License-Identifier: MIT
// The scheduler itself: what it must find, and what it must not.
#include <memory>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/platform.h"

using namespace belfry;
using namespace belfry::sim;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint64_t kSeeds = 50;

struct Machine {
  explicit Machine(SchedulerOptions options, int towers = 2)
      : platform(std::make_shared<SimPlatform>(options)),
        context({.towers = "cpu:" + std::to_string(towers),
                 .threads_per_tower = 1,
                 .platform = platform}) {}
  Scheduler& scheduler() { return platform->scheduler(); }
  const std::vector<std::string>& reports() { return scheduler().reports(); }
  std::shared_ptr<SimPlatform> platform;
  Context context;
};

void write(Stream& s, std::vector<float>& v, std::size_t from, std::size_t n, float x) {
  s.run(Touches().writes(v.data() + from, n * 4), [&v, from, n, x] {
    for (std::size_t i = from; i < from + n; ++i) v[i] = x;
  });
}

// A producer and a consumer on two streams, over overlapping views of one buffer.
float produce_and_consume(Machine& m, bool before, bool after) {
  Device& d = m.context.device(0);
  const auto side = d.stream();
  const auto ready = d.event(), read = d.event();
  std::vector<float> v(8, 0.f), out(1, 0.f);
  for (int round = 1; round <= 2; ++round) {
    write(d.main(), v, 0, 6, static_cast<float>(round));
    d.main().record(*ready);
    if (before) side->wait(*ready);
    side->run(Touches().reads(v.data() + 5, 12).reads(out.data(), 4).writes(out.data(), 4),
              [&] { out[0] += v[5]; });
    side->record(*read);
    if (after) d.main().wait(*read);
  }
  d.main().synchronize();
  side->synchronize();
  d.main().host_access(Touches().reads(out.data(), 4));
  return out[0];
}

}  // namespace

TEST_CASE("an ordered program has no reports and one result under every seed") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Machine m({.seed = seed});
    CHECK(produce_and_consume(m, true, true) == 3);
    CHECK(m.reports().empty());
  }
}

TEST_CASE("a missing wait is reported under every seed, also where the numbers came out right") {
  int right = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed)
    for (const bool before : {true, false}) {
      Machine m({.seed = seed});
      right += produce_and_consume(m, before, !before) == 3 ? 1 : 0;
      REQUIRE_FALSE(m.reports().empty());
      CHECK_THAT(m.reports()[0], Contains("race:") && Contains("not ordered"));
    }
  CHECK(right > 0);
  CHECK(right < 1000);
}

TEST_CASE("views that do not overlap are not in conflict, reads neither") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Machine m({.seed = seed});
    Device& d = m.context.device(0);
    const auto side = d.stream();
    std::vector<float> v(8, 0.f);
    write(d.main(), v, 0, 4, 1);
    write(*side, v, 4, 4, 2);
    d.main().run(Touches().reads(v.data(), 8), [] {});
    d.main().run(Touches().reads(v.data(), 16), [] {});
    d.synchronize();
    side->synchronize();
    CHECK(m.reports().empty());
  }
}

TEST_CASE("the host reads too early, or overwrites what a copy still reads") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Machine m({.seed = seed});
    Stream& s = m.context.device(0).main();
    std::vector<float> v(4, 0.f), w(4, 0.f);
    write(s, v, 0, 4, 1);
    s.host_access(Touches().reads(v.data(), 16));
    CHECK(m.reports().size() == 1);
    s.copy(w.data(), v.data(), 16);
    s.host_access(Touches().writes(v.data(), 4));
    s.synchronize();
    CHECK(m.reports().size() >= 2);
  }
}

TEST_CASE("memory that is freed while a stream uses it is reported, reused memory is not") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Machine m({.seed = seed});
    Stream& s = m.context.device(0).main();
    for (int i = 0; i < 3; ++i) {
      const auto v = std::make_unique<std::vector<float>>(64, 0.f);
      write(s, *v, 0, 64, 1);
      s.synchronize();
    }
    CHECK(m.reports().empty());
    const auto side = m.context.device(0).stream();
    auto v = std::make_unique<std::vector<float>>(64, 0.f);
    const auto passed = m.context.device(0).event();
    write(*side, *v, 0, 64, 1);
    side->record(*passed);
    while (!passed->done()) s.synchronize(), s.fill(&seed, 0, 0), side->synchronize();
    v.reset();  // after synchronize: fine
    CHECK(m.reports().empty());
  }
}

TEST_CASE("publish and observe order host threads, nothing else does") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const bool observes : {true, false}) {
      Machine m({.seed = seed});
      Host& host = m.context.host();
      std::vector<float> v(4, 0.f);
      bool ready = false;
      host.run(2, [&](int t) {
        Stream& s = m.context.device(t).main();
        if (t == 0) {
          write(s, v, 0, 4, 1);
          s.synchronize();
          host.publish(&ready, 7);
          ready = true;
          host.notify();
          return;
        }
        host.wait([&] { return ready; });
        if (observes) host.observe(&ready, 7);
        s.run(Touches().reads(v.data(), 16), [] {});
        s.synchronize();
      });
      CHECK(m.reports().empty() == observes);
    }
}

TEST_CASE("what can never go on is a deadlock that names the blocked heads, and an error for all") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Machine m({.seed = seed});
    Host& host = m.context.host();
    int errors = 0;
    CHECK_THROWS_AS(host.run(2,
                             [&](int t) {
                               try {
                                 host.wait([&] { return t > 5; });
                               } catch (const DeviceError&) {
                                 ++errors;
                                 throw;
                               }
                             }),
                    DeviceError);
    CHECK(errors == 2);
    REQUIRE(m.reports().size() == 1);
    CHECK_THAT(m.reports()[0], Contains("deadlock in Host::wait") && Contains("[host thread"));
    CHECK_THROWS_AS(m.context.device(0).main().record(*m.context.device(0).event()), DeviceError);
  }
}

TEST_CASE("an operation's exception comes out of synchronize, what follows it runs") {
  Machine m({.seed = 3});
  Stream& s = m.context.device(0).main();
  int x = 0;
  s.run({}, [] { throw DataError("bad row"); });
  s.run(Touches().writes(&x, 4), [&x] { x = 1; });
  CHECK_THROWS_AS(s.synchronize(), DataError);
  CHECK(x == 1);
  CHECK_NOTHROW(s.synchronize());
}

TEST_CASE("a seed gives the same run again") {
  std::vector<std::string> first;
  std::uint64_t operations = 0;
  for (int k = 0; k < 3; ++k) {
    Machine m({.seed = 12});
    produce_and_consume(m, false, true);
    if (k == 0) first = m.reports(), operations = m.scheduler().operations();
    CHECK(m.reports() == first);
    CHECK(m.scheduler().operations() == operations);
  }
}

TEST_CASE("virtual time: streams overlap, waits add up") {
  double apart = 0, together = 0;
  for (const bool ordered : {true, false})
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Machine m({.seed = seed});
      Device& d = m.context.device(0);
      const auto side = d.stream();
      const auto event = d.event();
      std::vector<float> a(1000, 0.f), b(1000, 0.f);
      write(d.main(), a, 0, 1000, 1);
      d.main().record(*event);
      if (ordered) side->wait(*event);
      write(*side, b, 0, 1000, 1);
      d.synchronize();
      side->synchronize();
      double& time = ordered ? apart : together;
      if (seed == 1) time = m.scheduler().critical_path();
      CHECK(m.scheduler().critical_path() == time);  // whatever the order of execution
    }
  CHECK(apart == Approx(2 * together));
}
