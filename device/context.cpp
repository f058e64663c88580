// SPDX-License-Identifier: MIT
#include "belfry/device/context.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "belfry/core/error.h"

namespace belfry {

int parse_towers(const std::string& text) {
  const std::string accepted = "\"cpu:N\" with N from 1 to 1024";
  if (text.rfind("cuda", 0) == 0)
    throw DeviceError(ErrorText{.what = "towers = \"" + text + "\"",
                                .found = "no CUDA devices: this build has no CUDA plug-in",
                                .expected = accepted,
                                .fix = "ask for CPU towers explicitly, e.g. towers = \"cpu:2\""});
  int n = 0;
  const char* end = text.data() + text.size();
  if (text.rfind("cpu:", 0) == 0) {
    const auto [p, ec] = std::from_chars(text.data() + 4, end, n);
    if (ec == std::errc() && p == end && n >= 1 && n <= 1024) return n;
  }
  throw ConfigError(ErrorText{.what = "towers", .found = "\"" + text + "\"", .expected = accepted});
}

Context::Context(const ContextOptions& options)
    : options_(options),
      threads_asked_(options.threads_per_tower > 0),
      host_(options.platform ? options.platform->host() : make_thread_host()) {
  const int n = parse_towers(options_.towers);
  const int cores = host_cores();
  if (options_.threads_per_tower < 0 || options_.threads_per_tower > 1024)
    throw ConfigError(ErrorText{.what = "threads_per_tower",
                                .found = std::to_string(options_.threads_per_tower),
                                .expected = "0 (cores / towers) to 1024"});
  if (options_.threads_per_tower == 0) options_.threads_per_tower = std::max(1, cores / n);
  if (n * options_.threads_per_tower > cores)
    logger().warn("{} towers x {} threads on {} cores: oversubscribed, throughput will suffer", n,
                  options_.threads_per_tower, cores);
  if (options_.threads_per_tower > 1 && std::getenv("OMP_WAIT_POLICY") == nullptr &&
      std::getenv("GOMP_SPINCOUNT") == nullptr)
    logger().info(
        "several threads a tower: set OMP_WAIT_POLICY=passive unless nothing else runs here");
  const int threads = options_.threads_per_tower;
  for (int i = 0; i < n; ++i)
    devices_.push_back(options_.platform ? options_.platform->device(i, threads)
                                         : make_cpu_device(i, threads, options_.executor));
}

Context::~Context() = default;

std::string Context::describe() const {
  return fmt::format("{} tower{} on cpu, {} thread{} each", towers(), towers() == 1 ? "" : "s",
                     device(0).threads(), device(0).threads() == 1 ? "" : "s");
}

}  // namespace belfry
