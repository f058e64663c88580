// SPDX-License-Identifier: MIT
#include "belfry/core/registry.h"

#include "belfry/tests/catch.h"

using namespace belfry;

namespace {

struct Word {
  std::string text;
};

}  // namespace

TEST_CASE("A registry is a value: what is added to a copy is not in the original") {
  Registry first;
  first.table<Word>().add("a", {"one"});
  Registry second = first;
  second.table<Word>().add("b", {"two"});
  CHECK(first.table<Word>().names() == std::vector<std::string>{"a"});
  CHECK(second.table<Word>().names() == std::vector<std::string>{"a", "b"});
  CHECK(second.table<Word>().at("a", "word").text == "one");
  Registry third;
  third.table<int>().add("n", 3);
  third = second;
  third.table<Word>().add("c", {"three"});
  CHECK(third.table<int>().names().empty());
  CHECK(second.table<Word>().find("c") == nullptr);
  const Registry empty;
  CHECK(empty.table<Word>().names().empty());
}
