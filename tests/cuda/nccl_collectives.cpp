// SPDX-License-Identifier: MIT
// What the collectives of NCCL's transport move, under every order of execution.
#include "belfry/tests/cuda/nccl_group.h"

using namespace belfry;
using belfry::sim::seeds;
using belfry::test::all_empty;
using belfry::test::Expect;
using belfry::test::floats;
using belfry::test::Group;
using belfry::test::Numbers;
using Catch::Matchers::Contains;

namespace {

// Every collective, its source overwritten at once and its result read at once, in stream order.
void program(int t, Communicator& c, Control& control, Device& d, Expect& expect) {
  const int n = c.size();
  const auto count = static_cast<std::size_t>(n);
  const Numbers numbers(d, 2048);
  const auto side = d.stream(1);
  Stream& s = *side;
  Tensor mine = floats(d, 2), all = floats(d, 2 * count);
  Tensor root = floats(d, 3), out = floats(d, count * (count + 1)), in = floats(d, count * count);
  const std::size_t results = 2 * count + count * count + 3;
  Tensor check = floats(d, results);
  std::vector<float> host(results);
  control.barrier();  // nobody takes memory while others wait in a collective
  for (int round = 0; round < 2; ++round) {
    const int base = 100 * t + 10 * round;
    numbers.set(s, mine, base);
    c.all_gather(s, mine.raw(), all.raw(), 8, {1, 0, round});
    numbers.set(s, mine, 1900);
    numbers.set(s, root, base);
    c.broadcast(s, root.raw(), 12, n - 1, {4, 0, round});
    float* const to = check.data<float>();
    s.copy(to, root.raw(), 12);
    numbers.set(s, root, 1800);
    numbers.set(s, out, base);
    // Member a sends b numbers to member b, from its base + a + b on; nothing to member 0.
    std::vector<const void*> send;
    std::vector<void*> recv;
    std::vector<std::size_t> send_bytes, recv_bytes;
    for (std::size_t p = 0; p < count; ++p) {
      send.push_back(out.data<float>() + static_cast<std::size_t>(t) + p);
      recv.push_back(in.data<float>() + count * p);
      send_bytes.push_back(4 * p);
      recv_bytes.push_back(4 * static_cast<std::size_t>(t));
    }
    c.exchange(s, send, send_bytes, recv, recv_bytes, {5, 1, round});
    numbers.set(s, out, 1700);
    s.copy(to + 3, all.raw(), all.bytes());
    s.copy(to + 3 + 2 * count, in.raw(), in.bytes());
    numbers.set(s, all, 1500);
    s.fetch(host.data(), check.raw(), results * sizeof(float));
    for (int p = 0; p < n; ++p) {
      const auto k = static_cast<std::size_t>(p);
      const float theirs = static_cast<float>(100 * p + 10 * round);
      expect(host[3 + 2 * k] == theirs && host[4 + 2 * k] == theirs + 1);
      for (int i = 0; i < t; ++i)
        expect(host[3 + 2 * count + count * k + static_cast<std::size_t>(i)] ==
               theirs + static_cast<float>(p + t + i));
    }
    const float largest = static_cast<float>(100 * (n - 1) + 10 * round);
    expect(host[0] == largest && host[1] == largest + 1 && host[2] == largest + 2);
  }
}

}  // namespace

TEST_CASE("collectives of NCCL move the right bytes, with nothing unordered and nothing left",
          "[cuda-sim]") {
  for (int n = 1; n <= 8; ++n)
    for (const bool check_tags : {false, true})
      for (std::uint64_t seed = 1; seed <= seeds(n > 4 ? 10 : 30); ++seed) {
        INFO(n << " towers, tags " << check_tags << ", seed " << seed);
        Expect expect;
        auto g = std::make_unique<Group>(n, sim::SchedulerOptions{.seed = seed},
                                         TransportOptions{.check_tags = check_tags});
        const auto errors = g->run([&](int t, Communicator& c, Device& d) {
          program(t, c, g->transport->control(t), d, expect);
        });
        CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(n)));
        CHECK(expect.failures == 0);
        CHECK(g->sim.reports() == std::vector<std::string>{});
        if (seed % 2 == 0)
          CHECK(all_empty(g->run([](int, Communicator& c, Device&) { c.close(); })));
        g->transport.reset();
        CHECK(g->sim.counts().live_communicators == 0);
      }
}

TEST_CASE("towers that close together leave the watchdog no communicator that has ended",
          "[cuda-sim]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Group g(3, {.seed = seed}, {.timeout_seconds = 2});
    CHECK(all_empty(g.run([&g](int t, Communicator& c, Device&) {
      // As long as the watchdog: it looks at the communicators while they end.
      if (t == 1) g.context.host().wait_for([] { return false; }, 0.1);
      c.close();
    })));
    CHECK(g.sim.reports() == std::vector<std::string>{});
    g.transport.reset();
    CHECK(g.sim.counts().live_communicators == 0);
  }
}
