// SPDX-License-Identifier: MIT
#include <algorithm>
#include <tuple>

#include "belfry/core/error.h"
#include "belfry/device/loop_internal.h"

namespace belfry {
namespace {

[[noreturn]] void fail(std::int64_t first, std::int64_t second, const std::string& found) {
  throw DeviceError(
      ErrorText{.what = "iterations " + std::to_string(first) + " and " + std::to_string(second) +
                        " of a loop are not independent",
                .found = found,
                .expected = "no iteration touches what another one writes",
                .fix = "give each its own range, or set carried = true to run them in order"});
}

std::string of(const LoopAccess& a) {
  return "iteration " + std::to_string(a.iteration) + " (" + a.what + ")";
}

const char* verb(const LoopAccess& a) { return a.write ? " writes" : " reads"; }

// The two accesses so far that reach farthest, of different iterations: whatever overlaps a later
// one is found among them.
struct Farthest {
  const LoopAccess* first = nullptr;
  const LoopAccess* second = nullptr;

  void add(const LoopAccess& a) {
    if (first == nullptr || a.hi > first->hi) {
      if (first != nullptr && first->iteration != a.iteration) second = first;
      first = &a;
    } else if (a.iteration != first->iteration && (second == nullptr || a.hi > second->hi)) {
      second = &a;
    }
  }
  const LoopAccess* overlapping(const LoopAccess& a) const {
    for (const LoopAccess* b : {first, second})
      if (b != nullptr && b->iteration != a.iteration && b->hi > a.lo) return b;
    return nullptr;
  }
};

[[noreturn]] void throw_overlap(const LoopAccess& a, const LoopAccess& b) {
  const bool ordered = a.iteration < b.iteration;
  const LoopAccess &one = ordered ? a : b, &two = ordered ? b : a;
  const std::uintptr_t lo = std::max(a.lo, b.lo), hi = std::min(a.hi, b.hi);
  fail(one.iteration, two.iteration,
       of(two) + verb(two) + " bytes [" + std::to_string(lo - one.lo) + ", " +
           std::to_string(hi - one.lo) + ") of the " + std::to_string(one.hi - one.lo) + " that " +
           of(one) + verb(one));
}

}  // namespace

void throw_dependent(const LoopAccess& access, std::int64_t owner) {
  fail(std::min(owner, access.iteration), std::max(owner, access.iteration),
       of(access) + verb(access) + " " + std::to_string(access.hi - access.lo) +
           " bytes of a tensor that iteration " + std::to_string(owner) + " made");
}

// By where they begin; of two that overlap, the later one begins inside the earlier one.
void require_independent(std::vector<LoopAccess>& accesses) {
  std::sort(accesses.begin(), accesses.end(), [](const LoopAccess& a, const LoopAccess& b) {
    return std::tie(a.lo, a.iteration, b.write) < std::tie(b.lo, b.iteration, a.write);
  });
  Farthest reads, writes;
  for (const LoopAccess& a : accesses) {
    const LoopAccess* other = writes.overlapping(a);
    if (other == nullptr && a.write) other = reads.overlapping(a);
    if (other != nullptr) throw_overlap(*other, a);
    (a.write ? writes : reads).add(a);
  }
}

Touches touches_of(std::vector<LoopAccess>& accesses) {
  std::sort(accesses.begin(), accesses.end(), [](const LoopAccess& a, const LoopAccess& b) {
    return std::tie(a.write, a.lo) < std::tie(b.write, b.lo);
  });
  Touches out;
  for (std::size_t i = 0; i < accesses.size();) {
    const LoopAccess& first = accesses[i];
    std::uintptr_t hi = first.hi;
    for (++i; i < accesses.size() && accesses[i].write == first.write && accesses[i].lo <= hi; ++i)
      hi = std::max(hi, accesses[i].hi);
    const auto* data = reinterpret_cast<const void*>(first.lo);  // NOLINT: as it was declared
    first.write ? out.writes(data, hi - first.lo) : out.reads(data, hi - first.lo);
  }
  return out;
}

std::string title(const LoopProgram& program) {
  return program.name.empty() ? "a loop of " + std::to_string(program.iterations) + " iterations"
                              : "loop '" + program.name + "'";
}

void rethrow_of(const LoopProgram& program, std::int64_t iteration, std::exception_ptr error) {
  const std::string where =
      "iteration " + std::to_string(iteration) + " of " + title(program) + ": ";
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& e) {
    ErrorText text = e.text();
    text.what = where + text.what;
    throw_error(e.kind(), std::move(text));
  } catch (const std::exception& e) {
    std::throw_with_nested(TowerError(where + e.what()));
  } catch (...) {
    std::throw_with_nested(TowerError(where + "an exception that is not a std::exception"));
  }
}

PassWatch& pass_watch() noexcept {
  static PassWatch watch;
  return watch;
}

}  // namespace belfry
