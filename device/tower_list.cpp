// SPDX-License-Identifier: MIT
#include "belfry/device/tower_list.h"

#include <charconv>
#include <string_view>

#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr int kMostTowers = 1024;

[[noreturn]] void bad(const std::string& text) {
  throw ConfigError(ErrorText{
      .what = "towers",
      .found = "\"" + text + "\"",
      .expected =
          "\"cpu:N\" with N from 1 to 1024, \"cuda:all\", or \"cuda:\" and GPU numbers as in "
          "\"cuda:0,1\", \"cuda:0x4\" (four towers on GPU 0) or \"cuda:0x2,1x2\" (two on each)"});
}

// A whole number from `least`, else -1.
int number(std::string_view text, int least) {
  int n = -1;
  const char* end = text.data() + text.size();
  const auto [p, ec] = std::from_chars(text.data(), end, n);
  return ec == std::errc() && p == end && n >= least && n <= kMostTowers ? n : -1;
}

// "0,2x3": GPU 0 once and GPU 2 three times.
std::vector<int> gpu_list(std::string_view items, const std::string& text) {
  std::vector<int> gpus;
  while (true) {
    const std::size_t comma = items.find(',');
    const std::string_view item = items.substr(0, comma);
    const std::size_t times = item.find('x');
    const int gpu = number(item.substr(0, times), 0);
    const int count = times == std::string_view::npos ? 1 : number(item.substr(times + 1), 1);
    if (gpu < 0 || count < 0) bad(text);
    gpus.insert(gpus.end(), static_cast<std::size_t>(count), gpu);
    if (gpus.size() > static_cast<std::size_t>(kMostTowers)) bad(text);
    if (comma == std::string_view::npos) return gpus;
    items.remove_prefix(comma + 1);
  }
}

}  // namespace

TowerList parse_towers(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) bad(text);
  const std::string_view kind = std::string_view(text).substr(0, colon);
  const std::string_view rest = std::string_view(text).substr(colon + 1);
  TowerList list;
  if (kind == "cuda") {
    list.backend = Backend::cuda;
    if (rest == "all") return list;
    list.gpus = gpu_list(rest, text);
    list.count = static_cast<int>(list.gpus.size());
    return list;
  }
  if (kind != "cpu" && kind != "cuda-sim") bad(text);
  list.count = number(rest, 1);
  if (list.count < 0) bad(text);
  if (kind == "cuda-sim") {
    list.backend = Backend::cuda;
    list.simulated = true;
    for (int i = 0; i < list.count; ++i) list.gpus.push_back(i);
  }
  return list;
}

}  // namespace belfry
