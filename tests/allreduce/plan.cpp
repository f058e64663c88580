// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <set>

#include "belfry/allreduce/fold.h"
#include "belfry/allreduce/round_record.h"
#include "belfry/allreduce/verdict.kernel.h"
#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

TEST_CASE("flat index: reverse order, 64-element places, segments cover blocks") {
  const FlatIndex index({"a", "b", "none", "c"},
                        {Shape{10000}, Shape{3, 5}, Shape{0, 4}, Shape{64}});
  const auto& v = index.variables();
  CHECK(v[0].name == "c");
  CHECK(v[1].name == "none");
  CHECK(v[2].name == "b");
  CHECK(v[3].name == "a");
  CHECK(v[0].offset == 0);
  CHECK(v[2].offset == 64);
  CHECK(v[3].offset == 128);
  CHECK(index.parameters() == 64 + 15 + 10000);
  CHECK(index.blocks() == 3);  // 128 + 10048 = 10176 elements
  std::size_t covered = 0;
  std::map<int, std::size_t> of;
  for (std::size_t b = 0; b < index.blocks(); ++b)
    for (std::size_t s = index.first_segment(b); s < index.first_segment(b + 1); ++s) {
      const Segment& seg = index.segments()[s];
      CHECK(seg.offset == covered);
      CHECK(seg.size % kVariableAlign == 0);
      CHECK(seg.offset / kBlock == b);
      CHECK((seg.offset + seg.size - 1) / kBlock == b);
      covered += seg.size;
      of[seg.variable] += seg.size;
    }
  CHECK(covered == 10176);
  CHECK(of == std::map<int, std::size_t>{{0, 64}, {2, 64}, {3, 10048}});
  CHECK(index.find("b") == 2);
  CHECK(index.find("x") == -1);
  CHECK_THROWS_AS(FlatIndex({"a", "a"}, {Shape{1}, Shape{1}}), ConfigError);
}

TEST_CASE("B65 buckets and slices cover 3,000,000,000 elements without a gap") {
  const std::size_t blocks = (3000000000ull + kBlock - 1) / kBlock;
  const auto buckets = plan_buckets(blocks);
  CHECK(buckets[0].blocks * kBlock * 4 == std::size_t{1} << 20);
  std::size_t next = 0;
  for (const Bucket& b : buckets) {
    CHECK(b.first == next);
    CHECK(b.blocks * kBlock <= 0x7fffffffu);
    next += b.blocks;
    for (const int n : {1, 2, 3, 8}) {
      std::size_t at = b.first;
      for (int r = 0; r < n; ++r) {
        const Bucket s = slice_of(b, r, n);
        if (s.blocks != 0) CHECK(s.first == at);
        at += s.blocks;
      }
      CHECK(at == b.first + b.blocks);
    }
  }
  CHECK(next == blocks);
  const auto tiny = plan_buckets(5, 1, 1);  // a limit below one block
  CHECK(tiny.size() == 5);
}

TEST_CASE("rows are cut with the first parts one longer") {
  std::vector<std::int64_t> counts;
  for (int p = 0; p < 4; ++p) counts.push_back(part_of(10, p, 4).count);
  CHECK(counts == std::vector<std::int64_t>{3, 3, 2, 2});
  CHECK(part_of(3, 5, 8).count == 0);
  CHECK(part_of(10, 2, 4).first == 6);
}

TEST_CASE("the record decides alike from the gathered parts") {
  const FlatIndex index({"a", "b", "c"}, {Shape{1}, Shape{1}, Shape{1}});
  const std::vector<char> trainable{1, 1, 1};
  const auto part = [](std::uint32_t units, std::initializer_list<int> present) {
    HostPart p;
    p.update = 7;
    p.units = units;
    p.called = units;
    p.rows = units;
    for (const int v : present) p.set(v);
    return p;
  };
  // flat order: 0 = c, 1 = b, 2 = a
  const Decision all = decide({part(1, {0, 2}), part(1, {0, 2}), part(0, {})}, index, trainable,
                              MissingOnSome::reject);
  CHECK(all.kind == Decision::Kind::apply);
  CHECK(all.present == std::vector<char>{1, 0, 1});
  CHECK(all.skipped == std::vector<int>{1});
  CHECK(all.units == 2);
  const Decision some = decide({part(1, {0, 1, 2}), part(1, {0}), part(1, {0, 1})}, index,
                               trainable, MissingOnSome::reject);
  CHECK(some.kind == Decision::Kind::refuse);
  CHECK_THAT(some.error, Contains("b (missing on tower 1 of 3)") &&
                             Contains("a (missing on towers 1, 2 of 3)") && !Contains("c ("));
  CHECK(decide({part(1, {0, 1}), part(1, {0})}, index, trainable, MissingOnSome::zero).present ==
        std::vector<char>{1, 1, 0});
  const Decision none = decide({part(1, {}), part(1, {})}, index, trainable, MissingOnSome::zero);
  CHECK_THAT(none.error, Contains("no variable has a gradient"));
  HostPart threw = part(1, {});
  threw.flags = HostPart::kThrew;
  CHECK(decide({part(1, {0}), threw}, index, trainable, MissingOnSome::reject).threw);
  HostPart other = part(1, {0});
  other.update = 8;
  CHECK_THROWS_AS(decide({part(1, {0}), other}, index, trainable, MissingOnSome::reject),
                  CommError);
  const std::vector<char> frozen{1, 0, 1};
  CHECK(decide({part(1, {0, 2})}, index, frozen, MissingOnSome::reject).skipped.empty());
}

TEST_CASE("a host part survives encoding; a foreign one is a CommError") {
  HostPart p;
  p.update = 123456789012;
  p.rows = 3;
  p.flags = 2;
  p.units = 5;
  p.set(0);
  p.set(130);
  const HostPart q = HostPart::decode(p.encode());
  CHECK(q.update == p.update);
  CHECK(q.units == 5);
  CHECK((q.has(0) && q.has(130) && !q.has(64) && !q.has(1000)));
  std::vector<std::byte> bytes = p.encode();
  bytes.resize(bytes.size() - 3);
  CHECK_THROWS_AS(HostPart::decode(bytes), CommError);
}

TEST_CASE("fold: compiled and general trees give the same bits; absent leaves pass through") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const Philox philox = philox_key(2, Purpose::test);
  constexpr std::size_t kSize = 320;
  const SegmentRef segment{0, kSize, 0};
  const FoldPlan plan{0, 1, 1};
  for (int n = 1; n <= 20; ++n) {
    std::vector<std::vector<float>> g(static_cast<std::size_t>(n), std::vector<float>(kSize));
    std::vector<const float*> sources;
    std::vector<DevicePart> parts;
    Totals totals;
    for (int k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < kSize; ++i)
        g[static_cast<std::size_t>(k)][i] =
            unit_float(
                philox(static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(i), 0, 0).v[0]) -
            0.5f;
      sources.push_back(g[static_cast<std::size_t>(k)].data());
      parts.push_back({static_cast<float>(k % 3 + 1), 0});
      totals.weight += parts.back().weight;
    }
    const auto fold = [&](const std::vector<const float*>& from) {
      std::vector<float> mean(kSize), square(kSize);
      SegmentStats stats;
      FoldConfig config;
      config.statistics = config.squares = true;
      launch_fold(device->main(), 1,
                  {.segments = &segment,
                   .count = kSize,
                   .plan = &plan,
                   .variables = 1,
                   .sources = from.data(),
                   .host_sources = from.data(),
                   .parts = parts.data(),
                   .totals = &totals,
                   .mean = mean.data(),
                   .square = square.data(),
                   .stats = &stats,
                   .n = n,
                   .part_count = n,
                   .config = config});
      return std::make_pair(mean, square);
    };
    const auto [mean, square] = fold(sources);
    std::vector<const float*> absent = sources;
    absent[0] = nullptr;
    const auto [without, rest] = fold(absent);
    for (std::size_t i = 0; i < kSize; ++i) {
      std::vector<float> level, level0;
      for (int k = 0; k < n; ++k) level.push_back(g[static_cast<std::size_t>(k)][i]);
      const auto tree = [](std::vector<std::pair<bool, float>> l) {
        while (l.size() > 1) {
          std::vector<std::pair<bool, float>> next;
          for (std::size_t k = 0; k < l.size(); k += 2) {
            if (k + 1 == l.size() || !l[k + 1].first)
              next.push_back(l[k]);
            else if (!l[k].first)
              next.push_back(l[k + 1]);
            else
              next.emplace_back(true, l[k].second + l[k + 1].second);
          }
          l = next;
        }
        return l[0].first ? l[0].second : 0.f;
      };
      std::vector<std::pair<bool, float>> leaves, fewer;
      for (const float x : level) leaves.emplace_back(true, x);
      fewer = leaves;
      fewer[0].first = false;
      REQUIRE(mean[i] == tree(leaves) / totals.weight);
      REQUIRE(without[i] == tree(fewer) / totals.weight);
      double q = 0;
      for (int k = 0; k < n; ++k)
        q += static_cast<double>(level[static_cast<std::size_t>(k)] *
                                 level[static_cast<std::size_t>(k)]) /
             static_cast<double>(parts[static_cast<std::size_t>(k)].weight);
      REQUIRE(square[i] == Approx(q / static_cast<double>(totals.weight)).epsilon(1e-5));
    }
  }
}

TEST_CASE("verdict: norm and clip factor from the segments' sums; the count of bad elements") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  std::vector<SegmentStats> stats(100);
  for (std::size_t i = 0; i < stats.size(); ++i) stats[i] = {1, 2, 4, 0.5f, i == 50 ? 3.f : 0.f};
  Verdict v;
  Totals totals{.weight = 1};
  const auto reach = [&](const SegmentStats* from, float limit, bool guard) {
    launch_rows(device->main(), 1, ReachVerdict{from, stats.size(), limit, guard, &totals, &v});
  };
  reach(stats.data(), 5.f, true);
  CHECK(v.raw == 100);
  CHECK(v.units == 200);
  CHECK(v.norm == 20);
  CHECK(v.clip == 0.25f);
  CHECK(v.theta == 50);
  CHECK(v.bad == 3);
  CHECK(v.ok == 0);
  reach(stats.data(), 20.f, false);
  CHECK(v.clip == 1);  // at the limit nothing changes
  CHECK(v.ok == 1);
  stats[50].bad = 0;
  reach(stats.data(), 0, true);
  CHECK(v.ok == 1);
  for (const Totals& refused :
       {Totals{.weight = 0}, Totals{.weight = std::nanf("")}, Totals{.weight = 1, .faults = 1}}) {
    totals = refused;
    reach(nullptr, 0, true);
    CHECK(v.ok == 0);
    CHECK(v.raw == 0);
  }
}
