// SPDX-License-Identifier: MIT
#include "belfry/device/host_kernels.h"

#include <cstdlib>
#include <string>

#include "belfry/core/error.h"
#include "belfry/device/cpu/host_kernels_internal.h"

namespace belfry {
namespace {

constexpr InstructionSet kSets[] = {InstructionSet::baseline, InstructionSet::avx2,
                                    InstructionSet::avx512};

bool processor_runs(InstructionSet set) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  switch (set) {
    case InstructionSet::avx512:
      return __builtin_cpu_supports("x86-64-v4") != 0;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("x86-64-v3") != 0;
    case InstructionSet::baseline:
      break;
  }
#endif
  return set == InstructionSet::baseline;
}

std::string names(const std::vector<InstructionSet>& sets) {
  std::string out;
  for (const InstructionSet set : sets)
    out += (out.empty() ? "" : ", ") + std::string(name_of(set));
  return out;
}

InstructionSet chosen() {
  const std::vector<InstructionSet> sets = instruction_sets();
  const char* asked = std::getenv("BELFRY_ISA");
  if (asked == nullptr || *asked == '\0') return sets.back();
  for (const InstructionSet set : sets)
    if (std::string_view(asked) == name_of(set)) return set;
  throw ConfigError(ErrorText{.what =
                                  "the environment variable BELFRY_ISA names no instruction set "
                                  "that this processor and this build have",
                              .found = asked,
                              .expected = names(sets),
                              .fix = "choose one of these, or unset it for the best one"});
}

const HostKernels& kernels_of(InstructionSet set) {
  static const auto tables = [] {
    std::vector<HostKernels> out(std::size(kSets));
    for (const InstructionSet s : instruction_sets())
      fill_host_kernels(s, out[static_cast<std::size_t>(s)]);
    return out;
  }();
  return tables[static_cast<std::size_t>(set)];
}

}  // namespace

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::baseline:
      break;
  }
  return "x86-64";
}

InstructionSet instruction_set() {
  static const InstructionSet set = chosen();
  return set;
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> out;
  for (const InstructionSet set : kSets)
    if (processor_runs(set) && (set == InstructionSet::baseline || has_host_kernels(set)))
      out.push_back(set);
  return out;
}

HostBody host_body(const std::type_info& type, HostBody portable) {
  const HostBody body = kernels_of(instruction_set()).by_type(type.name());
  return body != nullptr ? body : portable;
}

HostBody host_body(InstructionSet set, std::string_view name) {
  return kernels_of(set).by_name(name);
}

void HostKernels::add(const char* type, const char* name, HostBody body) {
  entries_.push_back({type, name, body});
}

HostBody HostKernels::by_type(std::string_view type) const {
  for (const Entry& e : entries_)
    if (e.type == type) return e.body;
  return nullptr;
}

HostBody HostKernels::by_name(std::string_view name) const {
  for (const Entry& e : entries_)
    if (e.name == name) return e.body;
  return nullptr;
}

}  // namespace belfry
