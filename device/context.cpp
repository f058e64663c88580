// SPDX-License-Identifier: MIT
#include "belfry/device/context.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "belfry/core/error.h"
#include "belfry/device/cpu/onednn_internal.h"
#include "belfry/device/cpu/precision.h"
#include "belfry/device/host_kernels.h"
#include "belfry/device/peer_access.h"
#include "belfry/device/plugin.h"
#include "belfry/device/tower_list.h"

namespace belfry {

namespace {

// Devices of this process's GPUs, unless the options bring their own platform.
void choose_platform(ContextOptions& options, const TowerList& list) {
  if (options.platform) return;
  if (list.simulated)
    throw ConfigError(ErrorText{.what = "towers = \"" + options.towers + "\"",
                                .found = "no simulated GPUs: only Belfry's tests have them",
                                .expected = "\"cpu:N\" or \"cuda:...\""});
  if (list.backend == Backend::cpu) {
    const std::string fault = cpu_precision_fault(options.precision);
    if (!fault.empty()) throw ConfigError(fault);
    return;
  }
  CudaModule& cuda = cuda_module();
  for (const std::string& path : options.kernels) cuda.load_kernels(path);
  options.platform = cuda.platform({list.gpus, options.precision});
}

int count_of(const TowerList& list) { return list.count > 0 ? list.count : cuda_module().gpus(); }

void choose_threads(ContextOptions& options, int towers, const Log& log) {
  const int cores = host_cores();
  if (options.threads_per_tower < 0 || options.threads_per_tower > 1024)
    throw ConfigError(ErrorText{.what = "threads_per_tower",
                                .found = std::to_string(options.threads_per_tower),
                                .expected = "0 (cores / towers) to 1024"});
  if (options.threads_per_tower == 0) options.threads_per_tower = std::max(1, cores / towers);
  if (towers * options.threads_per_tower > cores)
    log.warn("{} towers x {} threads on {} cores: oversubscribed, throughput will suffer", towers,
             options.threads_per_tower, cores);
  if (options.threads_per_tower > 1 && std::getenv("OMP_WAIT_POLICY") == nullptr &&
      std::getenv("GOMP_SPINCOUNT") == nullptr)
    log.info("several threads a tower: set OMP_WAIT_POLICY=passive unless nothing else runs here");
}

// Copies between GPUs, and whatever reads another's memory, need not go through the host.
void connect(const std::vector<std::unique_ptr<Device>>& devices, const ContextOptions& options) {
  const void* const peers = options.platform ? options.platform->extension("peers") : nullptr;
  if (peers == nullptr) return;
  std::set<int> gpus;
  for (const auto& d : devices) gpus.insert(d->id().index);
  std::string apart;
  for (const std::string& pair :
       static_cast<const PeerAccess*>(peers)->enable({gpus.begin(), gpus.end()}))
    apart += (apart.empty() ? "" : ", ") + pair;
  if (!apart.empty())
    options.log.warn("no peer access between {}: copies go through the host", apart);
}

}  // namespace

Context::Context(const ContextOptions& options)
    : options_(options), threads_asked_(options.threads_per_tower > 0) {
  const TowerList list = parse_towers(options_.towers);
  instruction_set();  // throws here, not at the first kernel
  choose_platform(options_, list);
  const int n = count_of(list);
  if (list.backend == Backend::cpu)
    choose_threads(options_, n, logger());
  else
    options_.threads_per_tower = 1;  // drives its GPU
  host_ = options_.platform ? options_.platform->host() : make_thread_host();
  const int threads = options_.threads_per_tower;
  for (int i = 0; i < n; ++i)
    devices_.push_back(options_.platform ? options_.platform->device(i, threads)
                                         : make_cpu_device(i, threads, options_.executor));
  connect(devices_, options_);
  for (const auto& d : devices_)
    if (list.backend == Backend::cpu && options_.precision == Precision::bf16)
      d->slot<OneDnn>().narrow();
}

Context::~Context() = default;

Device& Context::device(int tower) const {
  if (tower < 0 || tower >= towers())
    throw ConfigError(ErrorText{
        .what = "device of a tower",
        .found = "tower " + std::to_string(tower),
        .expected = towers() == 1 ? "0, the only one of towers = \"" + options_.towers + "\""
                                  : "0 to " + std::to_string(towers() - 1) + " of towers = \"" +
                                        options_.towers + "\""});
  return *devices_[static_cast<std::size_t>(tower)];
}

std::string Context::describe() const {
  const char* plural = towers() == 1 ? "" : "s";
  if (device(0).id().backend == Backend::cpu)
    return fmt::format("{} tower{} on cpu, {} thread{} each{}", towers(), plural,
                       device(0).threads(), device(0).threads() == 1 ? "" : "s",
                       options_.precision == Precision::f32 ? "" : ", bf16");
  std::string names;
  for (int t = 0; t < towers(); ++t) names += (t == 0 ? "" : ", ") + name_of(device(t).id());
  return fmt::format("{} tower{} on {}, {}", towers(), plural, names, name_of(options_.precision));
}

}  // namespace belfry
