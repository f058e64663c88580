// SPDX-License-Identifier: MIT
#include "belfry/allreduce/leaf_plan.h"

#include <string>
#include <vector>

#include "belfry/tests/catch.h"

using namespace belfry;

namespace {

std::string sum(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }

// The additions that towers and fold make, written out.
std::string expression(const LeafPlan& plan) {
  std::vector<std::vector<std::string>> slots(static_cast<std::size_t>(plan.towers));
  for (int t = 0; t < plan.towers; ++t) {
    auto& mine = slots[static_cast<std::size_t>(t)];
    LeafStack stack;
    const int first = plan.first_shard(t) * plan.cuts;
    for (int leaf = first; leaf < first + plan.shard_count(t) * plan.cuts; ++leaf) {
      mine.push_back(std::to_string(leaf));
      stack.push({0, leaf});
      REQUIRE(stack.size() <= plan.slots);
      while (stack.merge()) {
        mine[mine.size() - 2] = sum(mine[mine.size() - 2], mine.back());
        mine.pop_back();
      }
    }
    REQUIRE(static_cast<int>(mine.size()) <= plan.partials);
  }
  std::vector<std::string> all;
  for (std::size_t k = 0; k < plan.sources.size(); ++k) {
    const LeafSource& s = plan.sources[k];
    all.push_back(slots[static_cast<std::size_t>(s.tower)].at(static_cast<std::size_t>(s.slot)));
    if (s.leaf >= 0) REQUIRE(all.back() == std::to_string(s.leaf));
    for (int m = 0; m < plan.merges[k]; ++m) {
      all[all.size() - 2] = sum(all[all.size() - 2], all.back());
      all.pop_back();
    }
  }
  while (all.size() > 1) {
    all[all.size() - 2] = sum(all[all.size() - 2], all.back());
    all.pop_back();
  }
  return all.at(0);
}

}  // namespace

TEST_CASE("strict: any number of towers makes the additions that one makes") {
  int plans = 0;
  for (int shards = 1; shards <= 16; ++shards)
    for (int cuts = 1; cuts <= 3; ++cuts) {
      const std::string want = expression(plan_strict(1, shards, cuts));
      for (int towers = 2; towers <= shards; ++towers, ++plans)
        REQUIRE(expression(plan_strict(towers, shards, cuts)) == want);
    }
  CHECK(plans == 360);
  CHECK(expression(plan_strict(3, 8, 1)) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
  CHECK(expression(plan_strict(2, 3, 2)) == "(((0+1)+(2+3))+(4+5))");
}

TEST_CASE("a tower is one leaf unless strict; the part of a leaf lies with its tower") {
  const LeafPlan plain = plan_towers(6);
  CHECK(plain.sources.size() == 6);
  CHECK((plain.regular && plain.slots == 1 && plain.parts == 1 && plain.partials == 1));
  CHECK(expression(plain) == "(((0+1)+(2+3))+(4+5))");
  const LeafPlan three = plan_strict(3, 8, 1);
  CHECK(three.sources.size() == 5);
  CHECK_FALSE(three.regular);
  CHECK((three.slots == 3 && three.parts == 3 && three.partials == 2));
  CHECK(three.part_of(2) == 2);
  CHECK(three.part_of(3) == 3);
  CHECK(three.part_of(7) == 7);
  const LeafPlan five = plan_strict(5, 8, 1);  // 2, 2, 2, 1, 1
  CHECK(five.part_of(6) == 6);
  CHECK(five.part_of(7) == 8);
  CHECK(plan_strict(4, 8, 1).regular);
  CHECK(plan_strict(8, 8, 1).regular);
  CHECK(plan_strict(1, 8, 1).slots == 4);
}
