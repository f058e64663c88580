// SPDX-License-Identifier: MIT
#include "belfry/towers/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

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
  if (several && (optimizer.needs_squares() || optimizer.statistics != Statistics::none))
    out.lines.push_back({"squares of units", bytes, towers * (leaves.slots + (strict ? 0 : 1))});
  if (variables == Variables::replicated)
    out.lines.push_back({"received", bytes, static_cast<int>(leaves.sources.size())});
  const bool shaped =
      optimizer.l2 != 0 || optimizer.clip == Clip::value || !optimizer.multipliers.empty();
  if (towers > 1 || shaped || variables == Variables::replicated)
    out.lines.push_back({"mean", bytes, 1});
  if (optimizer.statistics == Statistics::squares || optimizer.rule->wants_squares())
    out.lines.push_back({"square", bytes, 1});
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

void require_memory(const MemoryPlan& plan, double available, const std::string& fix) {
  if (plan.total() <= available) return;
  const auto largest = std::max_element(
      plan.variables.begin(), plan.variables.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  throw ConfigError(ErrorText{
      .what = "the model does not fit into memory",
      .found = fmt::format("{} for {:.0f} parameters on {} tower{} (the largest: {} {})",
                           size_text(plan.total()), plan.parameters, plan.towers,
                           plan.towers == 1 ? "" : "s", largest->first, largest->second.text()),
      .expected = "at most " + size_text(available) + ", what is available here",
      .fix = fix});
}

}  // namespace belfry
