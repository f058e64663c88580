// SPDX-License-Identifier: MIT
// What goes wrong in a group of GPUs: one CommError that says what and where, never a hang.
#include <algorithm>
#include <cstdlib>

#include "belfry/tests/cuda/nccl_group.h"

using namespace belfry;
using belfry::sim::seeds;
using belfry::test::all_empty;
using belfry::test::floats;
using belfry::test::Group;
using Catch::Matchers::Contains;

namespace {

using Errors = std::vector<std::string>;

bool said(const Errors& errors, const std::string& part) {
  return std::any_of(errors.begin(), errors.end(),
                     [&](const std::string& e) { return e.find(part) != std::string::npos; });
}

bool everybody(const Errors& errors) {
  return std::none_of(errors.begin(), errors.end(), [](const std::string& e) { return e.empty(); });
}

bool hung(sim::SimCuda& sim) {
  return std::any_of(sim.reports().begin(), sim.reports().end(),
                     [](const std::string& r) { return r.find("deadlock") != std::string::npos; });
}

// An all-gather of 16 bytes and the host's wait for it.
void gather(Communicator& c, Device& d, CommTag tag, std::size_t bytes = 16) {
  Tensor mine = floats(d, 64), all = floats(d, 64 * static_cast<std::size_t>(c.size()));
  d.main().fill(mine.raw(), 1, mine.bytes());
  c.all_gather(d.main(), mine.raw(), all.raw(), bytes, tag);
  d.main().synchronize();
  c.require_healthy();
}

struct Environment {
  Environment(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Environment() { unsetenv(name); }
  const char* name;
};

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(name_of(e.kind())) + ": " + e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("with check_tags towers that issue different collectives are told both sides",
          "[cuda-sim]") {
  struct Case {
    const char* name;
    std::function<void(int, Communicator&, Device&)> program;
    const char *found, *expected;
  };
  const std::vector<Case> cases{
      {"kind",
       [](int t, Communicator& c, Device& d) {
         gather(c, d, {t == 1 ? 8u : 7u, 2, 5});
       },
       "tower 1: all_gather (kind 8, bucket 2, update 5)", "kind 7, bucket 2, update 5"},
      {"bucket",
       [](int t, Communicator& c, Device& d) {
         gather(c, d, {7, t == 1 ? 3 : 2, 5});
       },
       "tower 1: all_gather (kind 7, bucket 3, update 5)", "kind 7, bucket 2, update 5"},
      {"update",
       [](int t, Communicator& c, Device& d) {
         gather(c, d, {7, 2, t == 1 ? 6 : 5});
       },
       "tower 1: all_gather (kind 7, bucket 2, update 6)", "kind 7, bucket 2, update 5"},
      {"count",
       [](int t, Communicator& c, Device& d) {
         gather(c, d, {7, 2, 5}, t == 1 ? 32 : 16);
       },
       "update 5) of 32 bytes", "update 5) of 16 bytes"},
      {"another collective",
       [](int t, Communicator& c, Device& d) {
         Tensor x = floats(d, 4), y = floats(d, 12);
         d.main().fill(x.raw(), 0, x.bytes());
         if (t == 1)
           c.broadcast(d.main(), x.raw(), 16, 0, {7, 2, 5});
         else
           c.all_gather(d.main(), x.raw(), y.raw(), 16, {7, 2, 5});
       },
       "tower 1: broadcast (kind 7, bucket 2, update 5) of 16 bytes",
       "all_gather (kind 7, bucket 2, update 5) of 16 bytes"},
      {"root",
       [](int t, Communicator& c, Device& d) {
         Tensor x = floats(d, 4);
         d.main().fill(x.raw(), 0, x.bytes());
         c.broadcast(d.main(), x.raw(), 16, t == 1 ? 0 : 2, {7, 2, 5});
       },
       "16 bytes from tower 0", "16 bytes from tower 2"},
      {"sizes of an exchange",
       [](int t, Communicator& c, Device& d) {
         Tensor x = floats(d, 16), y = floats(d, 16);
         d.main().fill(x.raw(), 0, x.bytes());
         std::vector<const void*> send(3, x.raw());
         std::vector<void*> recv{y.data<float>(), y.data<float>() + 4, y.data<float>() + 8};
         std::vector<std::size_t> bytes(3, 16), more(3, 16);
         if (t == 0) more[1] = 12;
         c.exchange(d.main(), send, more, recv, bytes, {7, 2, 5});
       },
       "tower 0: 12 bytes sent in exchange (kind 7, bucket 2, update 5)",
       "as tower 1: 16 bytes to receive"}};
  for (const Case& c : cases)
    for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
      INFO(c.name << ", seed " << seed);
      Group g(3, {.seed = seed}, {.check_tags = true});
      const Errors errors = g.run(c.program);
      CHECK(everybody(errors));
      CHECK(said(errors, "towers issued different collectives"));
      CHECK(said(errors, c.found));
      CHECK(said(errors, c.expected));
      CHECK_FALSE(g.transport->communicator(0).healthy());
      CHECK(g.sim.reports() == Errors{});
      CHECK_THROWS_AS(g.transport->control(0).barrier(), CommError);
      // Nothing of it can be used again.
      const Errors later = g.run([](int, Communicator& m, Device& d) { gather(m, d, {1, 1, 1}); });
      CHECK(everybody(later));
    }
}

TEST_CASE("a tower that does not come is named after the time-out, a late one is waited for",
          "[cuda-sim]") {
  for (const bool check_tags : {false, true})
    for (std::uint64_t seed = 1; seed <= seeds(30); ++seed) {
      INFO("tags " << check_tags << ", seed " << seed);
      Group g(4, {.seed = seed}, {.timeout_seconds = 2, .check_tags = check_tags});
      const auto wait = [&g](double seconds) {
        g.context.host().wait_for([] { return false; }, seconds);
      };
      CHECK(all_empty(g.run([&](int t, Communicator& c, Device& d) {
        if (t == 2) wait(1.5);
        gather(c, d, {1, 0, 1});
      })));
      const Errors errors = g.run([&](int t, Communicator& c, Device& d) {
        if (t != 2) gather(c, d, {9, 3, 17});
      });
      CHECK_THAT(errors[0],
                 Contains("all_gather (kind 9, bucket 3, update 17) made no progress for 2 s on "
                          "tower ") &&
                     Contains("not arrived: tower 2 (1 behind)"));
      CHECK(!errors[1].empty());
      CHECK(errors[2].empty());
      CHECK(!errors[3].empty());
      CHECK_FALSE(hung(g.sim));
      const Errors later = g.run([](int, Communicator& c, Device& d) { gather(c, d, {9, 4, 17}); });
      for (const std::string& e : later) CHECK_THAT(e, Contains("not arrived: tower 2"));
      g.transport.reset();
      CHECK(g.sim.counts().live_communicators == 0);
    }
}

TEST_CASE("an asynchronous error of NCCL ends the collective on every tower", "[cuda-sim]") {
  for (const ncclResult_t code : {ncclRemoteError, ncclSystemError, ncclInternalError})
    for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
      INFO("error " << code << ", seed " << seed);
      Group g(3, {.seed = seed}, {.timeout_seconds = 1000});
      g.sim.break_collective(3, code);
      const Errors errors = g.run([](int, Communicator& c, Device& d) {
        for (int k = 0; k < 5; ++k) gather(c, d, {4, k, 21});
      });
      CHECK(everybody(errors));
      CHECK(said(errors, ncclGetErrorString(code)));
      CHECK(said(errors, "all_gather (kind 4, bucket 2, update 21)"));
      CHECK_FALSE(hung(g.sim));
      g.transport.reset();
      CHECK(g.sim.counts().live_communicators == 0);
    }
}

TEST_CASE("abort from any thread ends the waits of all towers", "[cuda-sim]") {
  for (const bool control : {false, true})
    for (std::uint64_t seed = 1; seed <= seeds(30); ++seed) {
      INFO("control " << control << ", seed " << seed);
      Group g(4, {.seed = seed}, {.timeout_seconds = 1000});
      const Errors errors = g.run([&](int t, Communicator& c, Device& d) {
        if (t != 3) return gather(c, d, {2, 0, 1});
        if (control)
          g.transport->control(3).abort();
        else
          c.abort();
      });
      for (int t = 0; t < 3; ++t)
        CHECK_THAT(errors[static_cast<std::size_t>(t)],
                   Contains("the group was aborted by tower 3"));
      CHECK_FALSE(g.transport->communicator(3).healthy());
      CHECK_FALSE(hung(g.sim));
      g.transport.reset();
      CHECK(g.sim.counts().live_communicators == 0);
    }
}

TEST_CASE("each call of CUDA or NCCL that fails in turn is one error, and never a hang",
          "[cuda-sim]") {
  constexpr int kTowers = 3;
  const auto program = [](Group& g) {
    return g.run([&g](int t, Communicator& c, Device& d) {
      Tensor x = floats(d, 8), all = floats(d, 12);
      g.transport->control(t).barrier();  // nobody takes memory beside collectives
      d.main().fill(x.raw(), 0, x.bytes());
      c.all_gather(d.main(), x.raw(), all.raw(), 16, {1, 0, 1});
      c.broadcast(d.main(), x.raw(), 16, 1, {2, 0, 1});
      std::vector<const void*> send(kTowers, x.raw());
      std::vector<void*> recv;
      for (std::size_t p = 0; p < kTowers; ++p) recv.push_back(x.data<float>() + 4 + p);
      std::vector<std::size_t> bytes(kTowers, 4);
      bytes[static_cast<std::size_t>(t)] = 0;
      c.exchange(d.main(), send, bytes, recv, bytes, {3, 0, 1});
      d.main().synchronize();
      c.require_healthy();
      c.close();
    });
  };
  int failed_calls = 0, in_nccl = 0;
  const std::uint64_t runs = seeds(4);
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    std::uint64_t made = 0, last = 0;
    {
      Group g(kTowers, {.seed = seed}, {.timeout_seconds = 2});
      made = g.sim.scheduler().calls();
      CHECK(all_empty(program(g)));
      last = g.sim.scheduler().calls();
      CHECK(g.sim.reports() == Errors{});
    }
    for (std::uint64_t k = 1; k <= last; ++k, ++failed_calls) {
      std::string call, all;
      try {
        Group g(kTowers, {.seed = seed, .fail_call = k}, {.timeout_seconds = 2});
        for (const std::string& e : program(g)) all += e + "\n";
        call = g.sim.scheduler().failed_call();
        const bool ends_one = call == "ncclCommFinalize" || call == "ncclCommDestroy";
        g.transport.reset();
        CHECK_FALSE(hung(g.sim));
        if (!ends_one) CHECK(g.sim.counts().live_communicators == 0);
      } catch (const Error& e) {  // before there is a group
        CHECK(k <= made);
        all = e.what();
      }
      INFO("seed " << seed << ", call " << k << " of " << last << ": " << call << ": " << all);
      // What gives a thread its device back does not look: the next call sets it again.
      if (call != "cudaSetDevice") CHECK_THAT(all, Contains("failed"));
      const bool collective = call.rfind("NCCL ", 0) == 0;
      if (!collective && call.rfind("nccl", 0) != 0) continue;
      ++in_nccl;
      CHECK_THAT(all, Contains(collective ? "(kind " : call + " failed"));
    }
  }
  // Of each tower: an all-gather, a broadcast, a group of two sends and receives, and its end.
  CHECK(in_nccl >= static_cast<int>(30 * runs));
  CHECK(failed_calls >= static_cast<int>(115 * runs));
}

TEST_CASE("a group that cannot work says so before it starts", "[cuda-sim]") {
  const auto group = [](const std::vector<int>& gpus) {
    return refusal([&] { Group g(static_cast<int>(gpus.size()), {.seed = 1}, {}, "nccl", gpus); });
  };
  CHECK_THAT(group({0, 1, 0}), Contains("several towers on cuda:0") && Contains("towers 0 and 2") &&
                                   Contains("\"threads\""));
  {
    const Environment e("CUDA_LAUNCH_BLOCKING", "1");
    CHECK_THAT(group({0, 1}), Contains("CUDA_LAUNCH_BLOCKING with several GPUs"));
    CHECK(group({0}).empty());
  }
  {
    const Environment e("NCCL_COMM_ID", "10.0.0.1:2345");
    CHECK_THAT(group({0, 1}), Contains("NCCL_COMM_ID is set"));
  }
  CHECK(group({0, 1}).empty());
  const auto on_cpu = refusal([] {
    Context context({.towers = "cpu:2"});
    builtin().table<TransportEntry>().at("nccl", "transport").make(context, {});
  });
  CHECK_THAT(on_cpu, Contains("towers that are not CUDA devices") && Contains("\"threads\""));
}

TEST_CASE("auto takes NCCL where each tower has a GPU of its own, else threads, and says why",
          "[cuda-sim]") {
  const auto choice = [](const std::vector<int>& gpus) {
    const int n = static_cast<int>(gpus.size());
    const sim::Gpus machine(n, {.seed = 1});
    const Context context(machine.options(gpus));
    const TransportChoice c = choose_transport(context, "auto");
    return c.name + ": " + c.reason;
  };
  CHECK(choice({0, 1}) == "nccl: each tower has a GPU of its own");
  CHECK(choice({0, 1, 1}) == "threads: several towers on cuda:1");
  CHECK(choice({0, 0, 1, 1}) == "threads: several towers on cuda:0, cuda:1");
  CHECK(choice({0}) == "threads: one tower");
  Context cpu({.towers = "cpu:2"});
  CHECK(choose_transport(cpu, "auto").name == "threads");
  CHECK(choose_transport(cpu, "nccl").reason == "asked for by transport = \"nccl\"");
  Group g(2, {.seed = 1}, {.timeout_seconds = 30, .reason = "each tower has a GPU of its own"});
  CHECK(g.transport->describe() ==
        "averaging: NCCL 2.28.9, a copy of the variables a tower; a collective may take 30 s (each "
        "tower has a GPU of its own)");
}
