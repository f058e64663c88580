// SPDX-License-Identifier: MIT
#include "belfry/allreduce/round_record.h"

#include <cstring>

#include "belfry/core/error.h"

namespace belfry {
namespace {

struct Head {
  std::int64_t update, rows;
  std::uint64_t called;
  std::uint32_t flags, units, groups, unused;
};

std::string join(const std::vector<std::string>& items, const char* between) {
  std::string out;
  for (const std::string& s : items) out += (out.empty() ? "" : between) + s;
  return out;
}

}  // namespace

std::string missing_text(const std::string& variable, const std::vector<int>& lacking,
                         std::size_t of, const std::string& unit) {
  std::vector<std::string> names;
  for (const int t : lacking) names.push_back(std::to_string(t));
  return variable + " (missing on " + unit + (lacking.size() > 1 ? "s " : " ") + join(names, ", ") +
         " of " + std::to_string(of) + ")";
}

void HostPart::start(std::size_t variables, std::uint32_t group_count) {
  groups = group_count;
  called = 0;
  presence.assign((variables + 63) / 64 * groups, 0);
}

bool HostPart::has(int variable, int group) const {
  const std::size_t words = presence.size() / groups, v = static_cast<std::size_t>(variable);
  const std::size_t at = static_cast<std::size_t>(group) * words + v / 64;
  return v / 64 < words && (presence[at] >> (v % 64) & 1u) != 0;
}

void HostPart::set(int variable, int group) {
  const auto v = static_cast<std::size_t>(variable);
  if (groups == 1 && presence.size() <= v / 64) presence.resize(v / 64 + 1, 0);
  const std::size_t words = presence.size() / groups;
  presence[static_cast<std::size_t>(group) * words + v / 64] |= std::uint64_t{1} << (v % 64);
}

std::vector<std::byte> HostPart::encode() const {
  const Head head{update, rows, called, flags, units, groups, 0};
  std::vector<std::byte> out(sizeof head + presence.size() * 8);
  std::memcpy(out.data(), &head, sizeof head);
  if (!presence.empty())
    std::memcpy(out.data() + sizeof head, presence.data(), presence.size() * 8);
  return out;
}

HostPart HostPart::decode(std::span<const std::byte> bytes) {
  Head head{};
  if (bytes.size() < sizeof head || (bytes.size() - sizeof head) % 8 != 0)
    throw CommError(ErrorText{.what = "round record of another size",
                              .found = std::to_string(bytes.size()) + " bytes"});
  std::memcpy(&head, bytes.data(), sizeof head);
  HostPart part;
  part.update = head.update;
  part.rows = head.rows;
  part.flags = head.flags;
  part.units = head.units;
  part.groups = head.groups;
  part.called = head.called;
  part.presence.resize((bytes.size() - sizeof head) / 8);
  if (part.groups < 1 || part.groups > HostPart::kMaxGroups ||
      part.presence.size() % part.groups != 0)
    throw CommError(ErrorText{.what = "round record of another size",
                              .found = std::to_string(part.groups) + " groups"});
  if (!part.presence.empty())
    std::memcpy(part.presence.data(), bytes.data() + sizeof head, part.presence.size() * 8);
  return part;
}

Decision decide(const std::vector<HostPart>& parts, const FlatIndex& index,
                const std::vector<char>& trainable, MissingOnSome missing,
                const std::string& unit) {
  Decision d;
  const std::size_t n = index.variables().size();
  d.present.assign(n, 0);
  for (const HostPart& p : parts) {
    d.units += p.units;
    if ((p.flags & HostPart::kThrew) != 0) d.threw = true;
    if ((p.flags & HostPart::kStop) != 0) d.stop = true;
    if (p.update != parts[0].update)
      throw CommError(
          ErrorText{.what = "towers are in different updates",
                    .found = std::to_string(p.update) + " and " + std::to_string(parts[0].update)});
  }
  if (d.threw) {
    d.kind = Decision::Kind::refuse;
    return d;
  }
  std::vector<std::string> faults;
  bool any = false;
  std::size_t all = 0;
  for (const HostPart& p : parts) all += p.groups;
  for (std::size_t v = 0; v < n; ++v) {
    std::vector<int> lacking;
    std::size_t with_rows = 0;
    int number = 0;
    for (const HostPart& p : parts)
      for (std::uint32_t g = 0; g < p.groups; ++g, ++number) {
        if ((p.called >> g & 1u) == 0) continue;  // no rows: not called, not missing
        ++with_rows;
        if (!p.has(static_cast<int>(v), static_cast<int>(g))) lacking.push_back(number);
      }
    if (lacking.size() == with_rows) {
      if (trainable[v] != 0 && with_rows != 0) d.skipped.push_back(static_cast<int>(v));
      continue;
    }
    any = true;
    d.present[v] = 1;
    if (!lacking.empty() && missing == MissingOnSome::reject)
      faults.push_back(missing_text(index.variables()[v].name, lacking, all, unit));
  }
  if (!any) {
    std::vector<std::string> names;
    for (const FlatVariable& v : index.variables()) names.push_back(v.name);
    faults = {"no variable has a gradient: " + join(names, ", ")};
  }
  if (!faults.empty()) {
    d.kind = Decision::Kind::refuse;
    d.error =
        any ? "gradients are missing on some " + unit + "s only: " + join(faults, "; ") : faults[0];
  }
  return d;
}

}  // namespace belfry
