// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace belfry::test {

// Counts what does not hold, from any thread: Catch2's own assertions are for one thread only.
struct Expect {
  void operator()(bool holds) { failures += holds ? 0 : 1; }
  std::atomic<int> failures{0};
};

}  // namespace belfry::test
