// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <set>

#include "belfry/data/loader.h"
#include "belfry/data/memory.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

using Ids = std::vector<std::int64_t>;

// The ids each of `towers` towers sees in each epoch: its contiguous part of every batch.
std::vector<std::vector<Ids>> run(int towers, std::int64_t batch, std::int64_t epochs) {
  Context context({.towers = "cpu:" + std::to_string(towers), .seed = 7, .threads_per_tower = 1});
  Loader loader(context,
                memory_dataset({0, 1, 2, 3, 4, 5, 6, 7}, Shape{1}, {0, 0, 0, 0, 1, 1, 1, 1}),
                {.batch = batch, .epochs = epochs});
  std::vector<std::vector<Ids>> out(static_cast<std::size_t>(towers),
                                    std::vector<Ids>(static_cast<std::size_t>(epochs)));
  for (const Batch& b : loader)
    for (int t = 0; t < towers; ++t)
      for (const double id : b.slice(t * b.rows / towers, b.rows / towers)["image"].to_vector())
        out[static_cast<std::size_t>(t)][static_cast<std::size_t>(b.epoch)].push_back(
            static_cast<std::int64_t>(id));
  return out;
}

}  // namespace

TEST_CASE("B11: one permutation an epoch, shared by all towers, another one each epoch") {
  const auto two = run(2, 4, 50);
  CHECK(two == run(2, 4, 50));
  const auto one = run(1, 4, 50);
  std::set<std::int64_t> seen[2];
  int equal = 0;
  for (std::size_t e = 0; e < 50; ++e) {
    CAPTURE(e);
    Ids global;  // batch by batch: rows 0-1 of each go to tower 0, rows 2-3 to tower 1
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < 2; ++t)
        global.insert(global.end(), two[t][e].begin() + 2 * b, two[t][e].begin() + 2 * b + 2);
    CHECK(global == one[0][e]);  // the stream of rows does not depend on the towers
    if (e > 0) equal += one[0][e] == one[0][e - 1];
    std::sort(global.begin(), global.end());
    CHECK(global == Ids{0, 1, 2, 3, 4, 5, 6, 7});
    for (std::size_t t = 0; t < 2; ++t) seen[t].insert(two[t][e].begin(), two[t][e].end());
  }
  CHECK(equal == 0);
  CHECK(seen[0].size() == 8);
  CHECK(seen[1].size() == 8);
}

TEST_CASE(
    "sampler: seeds and epochs give different permutations; without shuffling the rows' own "
    "order") {
  const Ids order = epoch_order(1000, 1, 0, true);
  CHECK(order == epoch_order(1000, 1, 0, true));
  CHECK(order != epoch_order(1000, 2, 0, true));
  CHECK(order != epoch_order(1000, 1, 1, true));
  CHECK(order != epoch_order(1000, std::uint64_t{1} << 32 | 1, 0, true));
  Ids sorted = order;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == epoch_order(1000, 1, 0, false));
  CHECK(sorted == epoch_order(1000, 9, 3, false));
  CHECK(epoch_order(0, 1, 0, true).empty());
  CHECK(epoch_order(1, 1, 0, true) == Ids{0});
  CHECK_THROWS_AS(epoch_order(-1, 1, 0, true), ConfigError);
  CHECK_THROWS_AS(epoch_order(1, 1, -1, true), ConfigError);
}

TEST_CASE("sampler: all 24 orders of 4 rows are equally frequent") {
  std::map<Ids, int> counts;
  const int draws = 24000;
  for (int e = 0; e < draws; ++e) ++counts[epoch_order(4, 5, e, true)];
  REQUIRE(counts.size() == 24);
  double chi = 0;
  for (const auto& [order, n] : counts) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  // 23 degrees of freedom: chance exceeds it for one seed in 1000, and the seed is fixed.
  CHECK(chi < 49.7);
}

TEST_CASE("sampler: orders stay what they were, or saved positions lose their meaning") {
  // From an implementation of Philox and Fisher-Yates in Python.
  CHECK(epoch_order(8, 1, 0, true) == Ids{3, 4, 5, 0, 7, 2, 6, 1});
  CHECK(epoch_order(8, 1, 1, true) == Ids{4, 2, 3, 6, 5, 0, 7, 1});
  CHECK(epoch_order(8, (std::uint64_t{1} << 40) + 9, 3, true) == Ids{3, 4, 5, 7, 6, 0, 1, 2});
}
