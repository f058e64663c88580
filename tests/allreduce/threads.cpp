// SPDX-License-Identifier: MIT
#include <atomic>
#include <cstring>
#include <numeric>

#include "belfry/allreduce/mover.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/expect.h"

using namespace belfry;
using belfry::test::Expect;
using Catch::Matchers::Contains;

namespace {

struct Group {
  explicit Group(int n, Executor e = Executor::in_place)
      : context({.towers = "cpu:" + std::to_string(n), .threads_per_tower = 1, .executor = e}),
        transport(builtin().table<TransportEntry>().at("threads", "transport").make(context, {})) {}
  template <class F>
  void run(F f) {
    context.host().run(context.towers(),
                       [&](int t) { f(t, transport->communicator(t), context.device(t).main()); });
  }
  Context context;
  std::unique_ptr<Transport> transport;
};

}  // namespace

TEST_CASE("collectives of the threads transport move the right bytes") {
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded})
    for (const int n : {1, 2, 3, 8}) {
      Group g(n, e);
      Expect expect;
      const auto count = static_cast<std::size_t>(n);
      g.run([&](int t, Communicator& c, Stream& s) {
        const auto me = static_cast<std::size_t>(t);
        expect(c.rank() == t);
        expect(c.size() == n);
        for (int round = 0; round < 3; ++round) {
          std::vector<float> mine{static_cast<float>(t + round), 1}, all(2 * count);
          c.all_gather(s, mine.data(), all.data(), 8, {1, 0, round});
          float root = t == n - 1 ? 42.f : 0.f;
          c.broadcast(s, &root, 4, n - 1, {4, 0, round});
          // Member a sends b copies of a * 10 + b to member b.
          std::vector<std::vector<float>> out(count), in(count);
          std::vector<const void*> send;
          std::vector<void*> recv;
          std::vector<std::size_t> send_bytes, recv_bytes;
          for (std::size_t p = 0; p < count; ++p) {
            out[p].assign(p, static_cast<float>(me * 10 + p));
            in[p].resize(me);
            send.push_back(out[p].data());
            recv.push_back(in[p].data());
            send_bytes.push_back(4 * p);
            recv_bytes.push_back(4 * me);
          }
          c.exchange(s, send, send_bytes, recv, recv_bytes, {5, 1, round});
          s.synchronize();
          expect(root == 42);
          for (std::size_t p = 0; p < count; ++p) {
            expect(all[2 * p] == static_cast<float>(static_cast<int>(p) + round));
            for (const float x : in[p]) expect(x == static_cast<float>(p * 10 + me));
          }
        }
      });
      CHECK(expect.failures == 0);
    }
}

TEST_CASE("members that issue different collectives get a CommError on every one") {
  for (const bool size : {false, true}) {
    Group g(3);
    std::vector<std::string> errors(3);
    g.run([&](int t, Communicator& c, Stream& s) {
      std::vector<float> a(4), b(12);
      try {
        c.all_gather(s, a.data(), b.data(), size && t == 1 ? 8u : 16u,
                     {1, !size && t == 1 ? 5 : 4, 9});
      } catch (const CommError& e) {
        errors[static_cast<std::size_t>(t)] = e.what();
      }
    });
    int named = 0;
    for (const std::string& e : errors) {
      CHECK_FALSE(e.empty());
      named += e.find("different collectives") != std::string::npos;
    }
    CHECK(named >= 1);
    CHECK_FALSE(g.transport->communicator(0).healthy());
    CHECK_THROWS_AS(g.transport->control(0).barrier(), CommError);
  }
}

TEST_CASE("abort from any thread ends everybody's wait") {
  Group g(4);
  std::atomic<int> ended{0};
  g.context.host().run(4, [&](int t) {
    if (t == 3) {
      g.transport->control(3).abort();
      return;
    }
    try {
      g.transport->control(t).barrier();
    } catch (const CommError&) {
      ++ended;
    }
  });
  CHECK(ended == 3);
}

TEST_CASE("control gathers bytes of different lengths") {
  Group g(3);
  Expect expect;
  g.context.host().run(3, [&](int t) {
    for (std::size_t round = 0; round < 50; ++round) {
      const std::vector<std::byte> mine(static_cast<std::size_t>(t) + round,
                                        std::byte{static_cast<unsigned char>(t)});
      const auto all = g.transport->control(t).all_gather(mine);
      expect(all.size() == 3);
      for (std::size_t p = 0; p < 3; ++p) {
        expect(all[p].size() == p + round);
        for (const std::byte b : all[p]) expect(b == std::byte{static_cast<unsigned char>(p)});
      }
    }
  });
  CHECK(expect.failures == 0);
}
