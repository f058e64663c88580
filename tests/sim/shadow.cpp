// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/shadow.h"

#include <algorithm>

namespace belfry::sim {
namespace {

bool ordered(const Access& a, const VectorClock& known) {
  const auto i = static_cast<std::size_t>(a.agent);
  return a.agent < 0 || (i < known.size() && known[i] >= a.clock);
}

std::string conflict(const Access& earlier, bool wrote, const Access& now, bool writes) {
  return "race: " + *earlier.what + (wrote ? " (write)" : " (read)") + " and " + *now.what +
         (writes ? " (write)" : " (read)") + " are not ordered";
}

}  // namespace

void join(VectorClock& a, const VectorClock& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) a[i] = std::max(a[i], b[i]);
}

bool covers(const VectorClock& a, const VectorClock& b) {
  for (std::size_t i = 0; i < b.size(); ++i)
    if (b[i] > (i < a.size() ? a[i] : 0)) return false;
  return true;
}

std::uint32_t tick(VectorClock& clock, int agent) {
  const auto i = static_cast<std::size_t>(agent);
  if (clock.size() <= i) clock.resize(i + 1);
  return ++clock[i];
}

Shadow::Cells::iterator Shadow::cut(std::uintptr_t at) {
  auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return it;
  const auto before = std::prev(it);
  if (before->first == at) return before;
  if (before->second.hi <= at) return it;
  Cell right = before->second;
  before->second.hi = at;
  return cells_.emplace(at, std::move(right)).first;
}

std::vector<std::string> Shadow::touch(const Range& range, const Access& access,
                                       const VectorClock& known) {
  std::vector<std::string> out;
  if (range.lo >= range.hi) return out;
  cut(range.hi);
  auto it = cut(range.lo);
  for (std::uintptr_t at = range.lo; at < range.hi; ++it) {
    if (it == cells_.end() || it->first > at) {  // a gap: nobody has touched it
      const std::uintptr_t end =
          it == cells_.end() ? range.hi : std::min<std::uintptr_t>(it->first, range.hi);
      it = cells_.emplace_hint(it, at, Cell{end, {}, {}});
    }
    Cell& cell = it->second;
    if (!ordered(cell.write, known)) out.push_back(conflict(cell.write, true, access, range.write));
    if (range.write) {
      for (const Access& r : cell.reads)
        if (!ordered(r, known)) out.push_back(conflict(r, false, access, true));
      cell.write = access;
      cell.reads.clear();
    } else {
      // A read that is ordered before this one can be left out: what conflicts with it unordered
      // conflicts with this one too.
      std::erase_if(cell.reads, [&](const Access& r) { return ordered(r, known); });
      cell.reads.push_back(access);
    }
    at = cell.hi;
  }
  return out;
}

void Shadow::forget(std::uintptr_t lo, std::uintptr_t hi) {
  if (lo >= hi) return;
  cut(hi);
  for (auto it = cut(lo); it != cells_.end() && it->first < hi;) it = cells_.erase(it);
}

bool Shadow::knows(std::uintptr_t lo, std::uintptr_t hi) const {
  auto it = cells_.lower_bound(lo);
  if (it != cells_.end() && it->first < hi) return true;
  return it != cells_.begin() && std::prev(it)->second.hi > lo;
}

}  // namespace belfry::sim
