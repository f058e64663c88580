// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace belfry::sim {

// Who had done how much when: entry i is the number of steps of agent i that are known.
using VectorClock = std::vector<std::uint32_t>;
void join(VectorClock& a, const VectorClock& b);
bool covers(const VectorClock& a, const VectorClock& b);  // a knows all that b does
std::uint32_t tick(VectorClock& clock, int agent);

struct Range {
  std::uintptr_t lo, hi;
  bool write;
};

// Whoever touches memory: a stream or a host thread, at a moment of its own.
struct Access {
  int agent = -1;
  std::uint32_t clock = 0;
  const std::string* what = nullptr;
};

// Remembers for every byte the last write and the reads since then, and tells which of them nothing
// orders before a new access. The answer depends on the edges alone, not on the order in which the
// accesses happened to run.
class Shadow {
 public:
  // Conflicts of an access by `agent`, whose knowledge is `known`, as readable lines.
  std::vector<std::string> touch(const Range& range, const Access& access,
                                 const VectorClock& known);
  void forget(std::uintptr_t lo, std::uintptr_t hi);  // freed, or new: its history means nothing
  bool knows(std::uintptr_t lo, std::uintptr_t hi) const;  // some byte has a history
  void clear() { cells_.clear(); }

 private:
  struct Cell {
    std::uintptr_t hi = 0;
    Access write;
    std::vector<Access> reads;
  };
  using Cells = std::map<std::uintptr_t, Cell>;
  Cells::iterator cut(std::uintptr_t at);  // no cell spans `at` afterwards; the first from there on
  Cells cells_;
};

}  // namespace belfry::sim
