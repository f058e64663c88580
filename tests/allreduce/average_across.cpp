// SPDX-License-Identifier: MIT
#include "belfry/tests/allreduce/average_across.h"

#include "belfry/allreduce/mover.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

struct Members {
  explicit Members(int n, Executor e = Executor::in_place)
      : context({.towers = "cpu:" + std::to_string(n), .threads_per_tower = 1, .executor = e}),
        transport(builtin().table<TransportEntry>().at("threads", "transport").make(context, {})) {}
  // What each member gets, or its error.
  template <class Lists, class Options>
  std::vector<std::pair<Averaged, std::string>> run(Lists lists, Options options) {
    std::vector<std::pair<Averaged, std::string>> out(static_cast<std::size_t>(context.towers()));
    context.host().run(context.towers(), [&](int t) {
      auto& mine = out[static_cast<std::size_t>(t)];
      try {
        Device& d = context.device(t);
        mine.first = values_of(average_gradients(lists(t, d), d, transport->communicator(t),
                                                 transport->control(t), options(t)));
      } catch (const Error& e) {
        mine.second = std::string(name_of(e.kind())) + ": " + e.what();
      }
    });
    return out;
  }
  Context context;
  std::unique_ptr<Transport> transport;
};

AverageOptions part(const AverageOptions& all, const std::vector<int>& counts, int member) {
  AverageOptions out = all;
  out.weights.clear();
  std::size_t first = 0;
  for (int m = 0; m < member; ++m) first += static_cast<std::size_t>(counts.at(m));
  for (int k = 0; k < counts.at(member) && !all.weights.empty(); ++k)
    out.weights.push_back(all.weights.at(first + static_cast<std::size_t>(k)));
  return out;
}

}  // namespace

TEST_CASE("averaging over members gives each the bits of one call with all lists") {
  const std::vector<std::vector<int>> layouts{{1},       {1, 1},       {2, 1},
                                              {1, 0, 2}, {1, 1, 1, 1}, {3, 0, 0, 2}};
  int compared = 0;
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded})
    for (const auto& counts : layouts)
      for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16})
        for (const bool weighted : {false, true})
          for (const bool partial : {false, true}) {
            AverageOptions o{.include_square = true, .none = MissingOnSome::zero};
            int lists = 0;
            for (const int n : counts) lists += n;
            for (int k = 0; k < lists && weighted; ++k) o.weights.push_back(k == 2 ? 0 : k + 0.5);
            Members m(static_cast<int>(counts.size()), e);
            if (partial && lists == 1) continue;
            const Averaged expected = alone(counts, type, m.context.device(0), o, partial);
            REQUIRE(expected.mean.size() == 3);
            REQUIRE(expected.square.size() == 3);
            for (const auto& [got, error] :
                 m.run([&](int t, Device& d) { return lists_of(counts, t, type, d, partial); },
                       [&](int t) { return part(o, counts, t); })) {
              CHECK(error.empty());
              CHECK(got == expected);
              ++compared;
            }
          }
  CHECK(compared >= 500);
}

TEST_CASE("averaging over members: one that runs out of memory lets the others not wait") {
  const std::vector<int> counts{1, 1, 1};
  Members m(3);
  std::vector<ErrorClass> errors(3, ErrorClass::config);
  bool aborted = false;
  m.context.host().run(3, [&](int t) {
    Device& d = m.context.device(t);
    Communicator& comm = m.transport->communicator(t);
    const auto lists = lists_of(counts, t, DType::f32, d, false);
    if (t == 1) d.arena().set_limit(d.arena().stats().reserved_bytes);
    try {
      average_gradients(lists, d, comm, m.transport->control(t));
    } catch (const Error& e) {
      errors[static_cast<std::size_t>(t)] = e.kind();
      if (t == 1) aborted = !comm.healthy();
      comm.abort();  // else a failure of this test would hang
    }
  });
  CHECK(aborted);
  CHECK(errors == std::vector{ErrorClass::comm, ErrorClass::device, ErrorClass::comm});
}

TEST_CASE(
    "averaging over members: what is wrong with any list is said alike to all, and may be put "
    "right") {
  const std::vector<int> counts{1, 2, 1};
  const auto plain = [&](int t, Device& d) { return lists_of(counts, t, DType::f32, d, false); };
  const auto none = [](int) { return AverageOptions{}; };
  Members m(3);
  const auto all_say = [&](auto lists, auto options, const std::string& kind,
                           const std::string& part_of_it) {
    const auto results = m.run(lists, options);
    for (const auto& [got, error] : results) {
      CHECK_THAT(error, Catch::Matchers::StartsWith(kind) && Contains(part_of_it));
      CHECK(error == results[0].second);
    }
    for (const auto& [got, error] : m.run(plain, none)) CHECK(error.empty());
  };
  all_say([&](int t, Device& d) { return lists_of(counts, t, DType::f32, d, true); }, none,
          "GradientError", "some (missing on tower 1 of 4)");
  all_say(
      [&](int t, Device& d) {
        auto lists = plain(t, d);
        if (t == 2) lists[0][0].gradient = lists[0][0].gradient.view(Shape{143, 7});
        return lists;
      },
      none, "GradientError", "[7, 143] on tower 0, [143, 7] on tower 3");
  all_say(
      [&](int t, Device& d) {
        auto lists = plain(t, d);
        if (t == 1) lists[1][2].variable = "other";
        return lists;
      },
      none, "GradientError", "on tower 2");
  all_say(
      plain, [&](int t) { return AverageOptions{.include_square = t == 1}; }, "GradientError",
      "member 1 asks for something else");
  all_say(
      plain,
      [&](int t) {
        return AverageOptions{.weights = t == 2 ? std::vector<double>{1} : std::vector<double>{}};
      },
      "GradientError", "member 2 asks for something else");
  all_say(
      plain,
      [&](int t) { return AverageOptions{.weights = std::vector<double>(t == 1 ? 2 : 1, 0.0)}; },
      "NumericError", "all weights are 0");
}
