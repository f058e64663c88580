// SPDX-License-Identifier: MIT
#include "belfry/towers/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>

#include "belfry/allreduce/leaf_plan.h"
#include "belfry/allreduce/state_exchange.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The number a file holds; infinity where there is none ("max").
double number_in(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : kUnknown;
}

double free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    double kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return 1024 * kibibytes;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnknown;
}

// The lowest limit of the process's control group and those above it, version 1 or 2.
double group_limit() {
  double out = std::min(number_in("/sys/fs/cgroup/memory.max"),
                        number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      out = std::min(out, number_in("/sys/fs/cgroup" + path + "/memory.max"));
  }
  return out;
}

std::string size_text(double bytes) {
  constexpr double kMebi = 1 << 20;
  return bytes < 1e4 * kMebi ? fmt::format("{:.1f} MiB", bytes / kMebi)
                             : fmt::format("{:.1f} GiB", bytes / kMebi / 1024);
}

// Every tower has all of them.
void add_states(const Module& module, const LeafPlan& leaves, MemoryPlan& plan) {
  double cells = 0;
  for (const ModuleState* s : module.states()) cells += static_cast<double>(s->shape().size());
  if (cells > 0)
    plan.lines.push_back({"model state", StateExchange::bytes_for(cells, leaves), leaves.towers});
}

}  // namespace

double MemoryPlan::total() const {
  double out = 0;
  for (const Line& line : lines) out += line.bytes * line.copies;
  return out;
}

LeafPlan leaf_plan(const Optimizer& o, int towers) {
  if (o.reduce != ReduceMode::strict) return plan_towers(towers);
  if (towers > o.virtual_shards)
    throw ConfigError(ErrorText{.what = "reduce = \"strict\"",
                                .found = std::to_string(towers) + " towers, " +
                                         std::to_string(o.virtual_shards) + " virtual shards",
                                .expected = "at most as many towers as virtual shards",
                                .fix = "use fewer towers or set virtual_shards"});
  return plan_strict(towers, static_cast<int>(o.virtual_shards), static_cast<int>(o.accumulate));
}

MemoryPlan plan_memory(const Module& module, const Optimizer& optimizer, int towers,
                       Variables variables) {
  MemoryPlan out;
  out.towers = towers;
  for (const Variable* v : module.variables()) {
    out.variables.emplace_back(v->name(), v->shape());
    out.parameters += static_cast<double>(v->shape().size());
  }
  const double bytes = 4 * out.parameters;
  out.lines.push_back({"parameter", bytes, variables == Variables::replicated ? towers : 1});
  for (const std::string& state : optimizer.rule->state_names())
    out.lines.push_back({state, bytes, 1});
  if (optimizer.ema > 0) out.lines.push_back({"ema", bytes, 1});
  add_states(module, leaf_plan(optimizer, towers), out);
  const bool strict = optimizer.reduce == ReduceMode::strict;
  const LeafPlan leaves = leaf_plan(optimizer, towers);
  const bool several = optimizer.units(towers) > towers || strict;
  out.lines.push_back({"gradient", bytes, towers * leaves.slots});
  const bool squares =
      several && (optimizer.needs_squares() || optimizer.statistics != Statistics::none);
  const int sources = static_cast<int>(leaves.sources.size());
  if (squares)
    out.lines.push_back({"squares of units", bytes, towers * (leaves.slots + (strict ? 0 : 1))});
  if (variables == Variables::replicated) out.lines.push_back({"received", bytes, sources});
  if (variables == Variables::replicated && squares)
    out.lines.push_back({"received squares", bytes, sources});
  const bool shaped =
      optimizer.l2 != 0 || optimizer.clip == Clip::value || !optimizer.multipliers.empty();
  if (towers > 1 || shaped || variables == Variables::replicated)
    out.lines.push_back({"averaged gradient", bytes, 1});
  if (optimizer.statistics == Statistics::squares || optimizer.rule->wants_squares())
    out.lines.push_back({"averaged square", bytes, 1});
  return out;
}

std::int64_t smallest_pass(const Optimizer& o, int towers, std::int64_t rows) {
  const bool strict = o.reduce == ReduceMode::strict;
  const std::int64_t shards = strict ? o.virtual_shards : towers;
  std::int64_t out = rows;
  for (std::int64_t s = 0; s < shards; ++s)
    for (std::int64_t k = 0; k < o.accumulate; ++k) {
      const std::int64_t pass = part_of(part_of(rows, s, shards).count, k, o.accumulate).count;
      if (pass > 0) out = std::min(out, pass);
    }
  return out;
}

double available_memory() { return std::min(free_memory(), group_limit()); }

namespace {

// `place` completes "the model does not fit into"; `on` says for how many towers.
[[noreturn]] void does_not_fit(const MemoryPlan& plan, const std::string& place, double needed,
                               const std::string& on, const std::string& there,
                               const std::string& fix) {
  const auto largest = std::max_element(
      plan.variables.begin(), plan.variables.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  throw ConfigError(ErrorText{
      .what = "the model does not fit into " + place,
      .found = fmt::format("{} for {:.0f} parameters on {} (the largest: {} {})", size_text(needed),
                           plan.parameters, on, largest->first, largest->second.text()),
      .expected = "at most " + there,
      .fix = fix});
}

std::string towers_text(int n) { return fmt::format("{} tower{}", n, n == 1 ? "" : "s"); }

}  // namespace

void require_memory(const MemoryPlan& plan, double available, const std::string& fix) {
  if (plan.total() > available)
    does_not_fit(plan, "memory", plan.total(), towers_text(plan.towers),
                 size_text(available) + ", what is available here", fix);
}

std::vector<GpuShare> gpu_shares(const MemoryPlan& plan, const Context& context) {
  std::map<DeviceId, GpuShare> shares;
  for (int t = 0; t < context.towers(); ++t) {
    const std::optional<DeviceMemory> memory = device_memory(context, t);
    if (!memory) return {};
    GpuShare& share = shares[context.device(t).id()];
    share.gpu = context.device(t).id();
    share.memory = *memory;
    share.needed = plan.total() / plan.towers * ++share.towers;
  }
  std::vector<GpuShare> out;
  for (const auto& [id, share] : shares) out.push_back(share);
  return out;
}

void require_memory(const MemoryPlan& plan, const Context& context, const std::string& fix) {
  const std::vector<GpuShare> shares = gpu_shares(plan, context);
  if (shares.empty()) return require_memory(plan, available_memory(), fix);
  for (const GpuShare& s : shares)
    if (s.needed > static_cast<double>(s.memory.free))
      does_not_fit(
          plan, "the memory of " + name_of(s.gpu), s.needed,
          fmt::format("{} of {}", s.towers, towers_text(plan.towers)),
          fmt::format("{}, what is free of {}", size_text(static_cast<double>(s.memory.free)),
                      size_text(static_cast<double>(s.memory.total))),
          fix);
}

}  // namespace belfry
