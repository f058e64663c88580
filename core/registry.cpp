// SPDX-License-Identifier: MIT
#include "belfry/core/registry.h"

#include <algorithm>
#include <cctype>

namespace belfry {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Damerau-Levenshtein: insert, delete, replace, or swap two neighbours, each at cost 1.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = lower(word);
  // A third of the word may be wrong, and at least one letter: more is another word.
  std::size_t best = std::max<std::size_t>(1, (wanted.size() + 2) / 3) + 1;
  std::string out;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(wanted, lower(candidate));
    if (d < best) {
      best = d;
      out = candidate;
    }
  }
  if (!out.empty()) return out;
  // "batch" for "batchsize", "learning_rate" for "learning": the longest that is all of the other.
  std::size_t longest = 2;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    const std::size_t common = std::min(name.size(), wanted.size());
    if (common <= longest || name.compare(0, common, wanted, 0, common) != 0) continue;
    longest = common;
    out = candidate;
  }
  return out;
}

void throw_unknown_name(const std::string& name, std::string_view what,
                        const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  const std::string near = nearest_name(name, known);
  throw ConfigError(ErrorText{.what = "unknown " + std::string(what),
                              .found = "'" + name + "'",
                              .expected = list.empty() ? "none is registered" : "one of " + list,
                              .fix = near.empty() ? "" : "did you mean '" + near + "'?"});
}

}  // namespace belfry
