// SPDX-License-Identifier: MIT
// Communicators under the simulator: the one of threads, whose work is copies and events, and the
// simulated one, whose collectives are operations of their own.
#include <memory>
#include <numeric>
#include <vector>

#include "belfry/autodiff/tensor.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/expect.h"
#include "belfry/tests/sim/communicator.h"

using namespace belfry;
using namespace belfry::sim;
using belfry::test::Expect;
using Catch::Matchers::Contains;

namespace {

struct Group {
  Group(int n, SchedulerOptions options, bool simulated)
      : platform(std::make_shared<SimPlatform>(options)),
        context(
            {.towers = "cpu:" + std::to_string(n), .threads_per_tower = 1, .platform = platform}),
        transport(
            simulated
                ? sim_transport(platform->scheduler())(context, {})
                : builtin().table<TransportEntry>().at("threads", "transport").make(context, {})) {}
  template <class F>
  std::string run(F f) {
    try {
      context.host().run(context.towers(), [&](int t) {
        try {
          f(t, transport->communicator(t), context.device(t));
        } catch (...) {
          transport->control(t).abort();
          throw;
        }
      });
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  }
  std::shared_ptr<SimPlatform> platform;
  Context context;
  std::unique_ptr<Transport> transport;
};

Tensor floats(Device& d, std::size_t n) {
  return Tensor::empty(Shape{static_cast<std::int64_t>(n)}, DType::f32, d);
}

void set(Stream& s, const Tensor& t, float x) {
  s.run(Touches().writes(t.raw(), t.bytes()), [p = t.data<float>(), n = t.size(), x] {
    for (std::int64_t i = 0; i < n; ++i) p[i] = x + static_cast<float>(i);
  });
}

// Every collective, its source overwritten at once and its result read at once, in stream order.
void program(int t, Communicator& c, Device& d, Expect& expect) {
  const auto n = static_cast<std::size_t>(c.size());
  const auto side = d.stream(1);
  Stream& s = *side;
  Tensor mine = floats(d, 2), all = floats(d, 2 * n), root = floats(d, 3);
  Tensor out = floats(d, n), in = floats(d, n), check = floats(d, 3 * n + 3);
  std::vector<float> host(3 * n + 3);
  for (int round = 0; round < 2; ++round) {
    const float base = static_cast<float>(100 * t + 10 * round);
    set(s, mine, base);
    c.all_gather(s, mine.raw(), all.raw(), 8, {1, 0, round});
    set(s, mine, -1);
    set(s, root, base);
    c.broadcast(s, root.raw(), 12, static_cast<int>(n) - 1, {2, 0, round});
    s.copy(check.data<float>() + 3 * n, root.raw(), 12);
    set(s, root, -3);
    set(s, out, base);
    std::vector<const void*> send;
    std::vector<void*> recv;
    std::vector<std::size_t> bytes(n, 4);
    for (std::size_t p = 0; p < n; ++p) {
      send.push_back(out.data<float>() + p);
      recv.push_back(in.data<float>() + p);
    }
    c.exchange(s, send, bytes, recv, bytes, {3, 0, round});
    set(s, out, -2);
    s.copy(check.raw(), all.raw(), all.bytes());
    s.copy(check.data<float>() + 2 * n, in.raw(), in.bytes());
    s.fetch(host.data(), check.raw(), (3 * n + 3) * 4);
    for (std::size_t p = 0; p < n; ++p) {
      const float theirs = static_cast<float>(100 * static_cast<int>(p) + 10 * round);
      expect(host[2 * p] == theirs && host[2 * p + 1] == theirs + 1);
      expect(host[2 * n + p] == theirs + static_cast<float>(t));
    }
    expect(host[3 * n] == static_cast<float>(100 * (static_cast<int>(n) - 1) + 10 * round));
  }
}

}  // namespace

TEST_CASE("collectives move the right bytes under every order, with nothing unordered") {
  for (const bool simulated : {false, true})
    for (const int n : {1, 2, 4, 8})
      for (std::uint64_t seed = 1; seed <= seeds(100); ++seed) {
        Group g(n, {.seed = seed}, simulated);
        Expect expect;
        const std::string error =
            g.run([&](int t, Communicator& c, Device& d) { program(t, c, d, expect); });
        INFO("simulated " << simulated << ", " << n << " members, seed " << seed);
        CHECK(error.empty());
        CHECK(expect.failures == 0);
        CHECK(g.platform->scheduler().reports() == std::vector<std::string>{});
      }
}

TEST_CASE("every wait of the threads communicator is needed: dropped, it is reported always") {
  const auto run = [](int n, SchedulerOptions options) {
    Group g(n, options, false);
    Expect expect;
    g.run([&](int t, Communicator& c, Device& d) { program(t, c, d, expect); });
    return std::pair(g.platform->scheduler().waits(), g.platform->scheduler().reports().size());
  };
  for (const int n : {2, 4}) {
    int dropped = 0;
    std::vector<std::string> missed;
    for (const auto& [device, waits] : run(n, {}).first)
      for (std::uint64_t k = 1; k <= waits; ++k, ++dropped)
        for (std::uint64_t seed = 1; seed <= seeds(20); ++seed)
          if (run(n, {.seed = seed, .drop_wait = {device, k}}).second == 0)
            missed.push_back("member " + std::to_string(device) + ", wait " + std::to_string(k) +
                             ", seed " + std::to_string(seed));
    WARN("threads communicator, " << n << " members: " << dropped << " waits dropped in turn under "
                                  << seeds(20) << " seeds");
    CHECK(dropped > 0);
    CHECK(missed == std::vector<std::string>{});
  }
}

TEST_CASE("mismatched collectives are one CommError on every member, never a hang") {
  for (const bool simulated : {false, true})
    for (std::uint64_t seed = 1; seed <= seeds(100); ++seed)
      for (int fault = 0; fault < 4; ++fault) {
        Group g(4, {.seed = seed}, simulated);
        const std::string error = g.run([&](int t, Communicator& c, Device& d) {
          Tensor a = floats(d, 4), all = floats(d, 16);
          Stream& s = d.main();
          set(s, a, 1);
          const bool odd = t == 2;
          const std::size_t bytes = odd && fault == 0 ? 8 : 16;   // another count
          const std::int32_t bucket = odd && fault == 1 ? 1 : 0;  // another bucket
          const std::uint32_t kind = odd && fault == 2 ? 5 : 1;   // another collective
          if (odd && fault == 3)
            c.broadcast(s, a.raw(), 16, 0, {9, 0, 1});
          else
            c.all_gather(s, a.raw(), all.raw(), bytes, {kind, bucket, 1});
          s.synchronize();
        });
        INFO("simulated " << simulated << ", fault " << fault << ", seed " << seed);
        CHECK_THAT(error, Contains("different collectives") || Contains("aborted"));
      }
}

TEST_CASE("a member that leaves a collective out is found as a deadlock with the blocked heads") {
  for (const bool simulated : {false, true})
    for (std::uint64_t seed = 1; seed <= seeds(100); ++seed) {
      Group g(4, {.seed = seed}, simulated);
      const std::string error = g.run([&](int t, Communicator& c, Device& d) {
        Tensor a = floats(d, 4), all = floats(d, 16);
        set(d.main(), a, 1);
        if (t != 3) c.all_gather(d.main(), a.raw(), all.raw(), 16, {1, 0, 1});
        d.main().synchronize();
      });
      CHECK_FALSE(error.empty());
      const auto& reports = g.platform->scheduler().reports();
      REQUIRE_FALSE(reports.empty());
      CHECK_THAT(reports[0], Contains("deadlock"));
      if (simulated) CHECK_THAT(reports[0], Contains("all_gather 1 bucket 0 update 1 of member"));
    }
}
