// SPDX-License-Identifier: MIT
// Comparing the replicas' parameters and states before an update. Every update writes all of a
// replica again, from the slices' owners: what differs here has changed since the last update, or
// every time.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "belfry/core/checksum.h"
#include "belfry/core/error.h"
#include "belfry/towers/group_internal.h"

namespace belfry {
namespace {

using Hashes = std::vector<std::uint64_t>;  // one a variable, flat order, then one a state

constexpr std::size_t kPiece = std::size_t{1} << 20;  // elements fetched at once

Hashes hashes_of(Tower& tower, const FlatIndex& index) {
  Device& device = tower.device();
  device.bind_thread();
  tower.mover().await_parameters();
  const float* flat = tower.mover().parameters();
  std::vector<float> piece(std::min(kPiece, index.elements()));
  Hashes out;
  for (const FlatVariable& v : index.variables()) {
    Checksum sum;
    for (std::size_t at = 0; at < v.size; at += piece.size()) {
      const std::size_t n = std::min(piece.size(), v.size - at);
      device.main().fetch(piece.data(), flat + v.offset + at, n * sizeof(float));
      sum.update(std::as_bytes(std::span(piece.data(), n)));
    }
    out.push_back(sum.value());
  }
  if (tower.states() == nullptr) return out;
  const std::vector<float> values = tower.states()->read();
  for (const StateArray& a : tower.states()->arrays()) {
    Checksum sum;
    sum.update(
        std::as_bytes(std::span(values).subspan(a.at, static_cast<std::size_t>(a.shape.size()))));
    out.push_back(sum.value());
  }
  return out;
}

// What the hash `v` is of, for a message.
std::string named(std::size_t v, const FlatIndex& index, Tower& tower) {
  const std::size_t variables = index.variables().size();
  return v < variables ? "variable " + index.variables()[v].name
                       : "state " + tower.states()->arrays()[v - variables].name;
}

// The hash most towers have; of several, that of the lowest tower.
std::uint64_t common_hash(const std::vector<Hashes>& all, std::size_t v) {
  std::map<std::uint64_t, int> count;
  for (const Hashes& h : all) ++count[h[v]];
  std::uint64_t out = all[0][v];
  for (const Hashes& h : all)
    if (count[h[v]] > count[out]) out = h[v];
  return out;
}

// The first that differs, in the order of construction, and the towers that do. The same on every
// tower: a pure function of what was exchanged. Nothing when all agree.
std::optional<std::size_t> difference(const std::vector<Hashes>& all, std::size_t variables,
                                      std::string& who) {
  for (std::size_t i = 0; i < all[0].size(); ++i) {
    const std::size_t v = i < variables ? variables - 1 - i : i;
    const std::uint64_t common = common_hash(all, v);
    int several = 0;
    for (std::size_t t = 0; t < all.size(); ++t)
      if (all[t][v] != common) who += (several++ == 0 ? "" : ", ") + std::to_string(t);
    if (several == 0) continue;
    who = (several == 1 ? "tower " : "towers ") + who;
    return v;
  }
  return std::nullopt;
}

}  // namespace

void TowerGroupBase::Impl::check_replicas() {
  const std::int64_t every = shared.options.check_replicas;
  const bool replicated = shared.options.variables == Variables::replicated;
  if (!replicated || towers.size() < 2 || every <= 0 || attempts == 0 || attempts % every != 0)
    return;
  std::vector<std::optional<std::size_t>> first(towers.size());
  std::vector<std::string> who(towers.size());
  on_towers(true, [&](int t) {
    const auto k = static_cast<std::size_t>(t);
    const Hashes mine = hashes_of(*towers[k], shared.plan.index);
    std::vector<Hashes> all;
    for (const auto& bytes : transport->control(t).all_gather(std::as_bytes(std::span(mine)))) {
      all.emplace_back(bytes.size() / sizeof(std::uint64_t));
      std::memcpy(all.back().data(), bytes.data(), bytes.size());
      if (all.back().size() != mine.size())
        throw CommError(ErrorText{.what = "replica hashes of another number of arrays",
                                  .found = std::to_string(all.back().size()),
                                  .expected = std::to_string(mine.size())});
    }
    first[k] = difference(all, shared.plan.index.variables().size(), who[k]);
  });
  if (!first[0]) return;
  dead = true;
  throw DeviceError(ErrorText{
      .what = "the replicas differ, first in " + named(*first[0], shared.plan.index, *towers[0]),
      .found = "other values on " + who[0],
      .expected = "the same bits on every tower",
      .fix = "memory or a device is at fault; resume from a checkpoint of update " +
             std::to_string(attempts - every) + " or before, on other hardware",
      .rank = 0,
      .update = attempts});
}

}  // namespace belfry
