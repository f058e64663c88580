// SPDX-License-Identifier: MIT
#include "belfry/bench/common/results.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "belfry/core/error.h"

namespace belfry::bench {

std::string machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, model = "unknown processor", flags;
  int cores = 0;
  while (std::getline(cpuinfo, line)) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = line.substr(colon + 2);
    if (line.starts_with("flags")) flags = line.substr(colon + 1) + " ";
  }
  std::string out = fmt::format("{}, {} cores,", model, cores);
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_tile"})
    if (flags.find(" " + std::string(flag) + " ") != std::string::npos)
      out += " " + std::string(flag);
  return out;
}

struct Results::Impl {
  nlohmann::ordered_json json;
  bool passed = true;

  void bound(const std::string& name, double bound, bool upper) {
    auto& figure = json["figures"][name];
    const double value = figure["median"];
    const bool kept = upper ? value <= bound : value >= bound;
    figure[upper ? "at_most" : "at_least"] = bound;
    passed = passed && kept;
    std::cout << fmt::format("  {} {} {} {}: {:.3f}\n", kept ? "ok    " : "MISSED", name,
                             upper ? "<=" : ">=", bound, value);
  }
};

Results::Results(const std::string& bench) : impl_(std::make_unique<Impl>()) {
  impl_->json = {{"bench", bench}, {"machine", machine()}, {"settings", nullptr}};
  std::cout << machine() << "\n";
}
Results::~Results() = default;

void Results::setting(const std::string& name, const std::string& value) {
  impl_->json["settings"][name] = value;
  std::cout << name << " " << value << "\n";
}

void Results::figure(const std::string& name, const std::string& text, const Samples& s,
                     const std::string& unit, double scale) {
  impl_->json["figures"][name] = {{"median", s.median() * scale},
                                  {"lowest", s.lowest() * scale},
                                  {"highest", s.highest() * scale},
                                  {"rounds", s.values.size()},
                                  {"unit", unit}};
  std::cout << fmt::format("{:<46} {:10.2f} {:<8} ({:.2f} to {:.2f})\n", text, s.median() * scale,
                           unit, s.lowest() * scale, s.highest() * scale);
}

void Results::at_most(const std::string& name, double bound) { impl_->bound(name, bound, true); }
void Results::at_least(const std::string& name, double bound) { impl_->bound(name, bound, false); }
bool Results::passed() const { return impl_->passed; }

void Results::write(const std::string& path) const {
  if (path.empty()) return;
  std::ofstream file(path);
  file << impl_->json.dump(2) << "\n";
  file.close();
  if (!file) throw ConfigError(ErrorText{.what = "cannot write the figures", .found = path});
}

}  // namespace belfry::bench
