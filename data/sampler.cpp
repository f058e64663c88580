// SPDX-License-Identifier: MIT
#include <numeric>
#include <utility>

#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/data/loader.h"

namespace belfry {
namespace {

__extension__ using Wide = unsigned __int128;

// A number in [0, bound) without bias: the high half of a 64 x 64 bit product, drawn again while
// the low half falls into the uneven rest (Lemire, "Fast random integer generation in an
// interval").
std::uint64_t draw(const Philox& random, std::uint64_t index, std::uint64_t epoch,
                   std::uint64_t bound) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    // Indices stay below 2^48, so the counter's top bits number the attempts.
    const auto words = random(
        static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32) | attempt << 16,
        static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32));
    const Wide product = Wide{std::uint64_t{words.v[0]} << 32 | words.v[1]} * bound;
    if (static_cast<std::uint64_t>(product) >= (0 - bound) % bound)
      return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t rows, std::uint64_t seed, std::int64_t epoch,
                                      bool shuffle) {
  if (rows < 0 || epoch < 0 || rows >= std::int64_t{1} << 48)
    throw ConfigError(
        ErrorText{.what = "rows or epoch of an order are out of range",
                  .found = std::to_string(rows) + " rows, epoch " + std::to_string(epoch),
                  .expected = "rows in [0, 2^48), epoch at least 0"});
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  const Philox random = philox_key(seed, Purpose::shuffle);
  for (std::uint64_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw(random, i, static_cast<std::uint64_t>(epoch), i)]);
  return order;
}

}  // namespace belfry
