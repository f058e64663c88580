// SPDX-License-Identifier: MIT
#include <fstream>
#include <sstream>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/device/context.h"
#include "belfry/device/host_kernels.h"
#include "belfry/device/plugin.h"

namespace belfry {
namespace {

// The first "key : value" of /proc/cpuinfo, "" where there is none.
std::string cpu_info(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key))
      if (const std::size_t colon = line.find(": "); colon != line.npos)
        return line.substr(colon + 2);
  return "";
}

std::string processor_sets() {
  std::istringstream flags(cpu_info("flags"));
  std::string out;
  for (std::string flag; flags >> flag;)
    if (flag.starts_with("avx") || flag.starts_with("amx") || flag == "fma" || flag == "sse4_2")
      out += (out.empty() ? "" : " ") + flag;
  return out.empty() ? "unknown" : out;
}

}  // namespace

void add_devices(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command = app.add_subcommand("devices", "list the devices towers can run on");
  command->callback([&context, &code] {
    const Context one({.towers = "cpu:1"});
    const std::string name = cpu_info("model name");
    context.print("cpu: {}, {} cores\n", name.empty() ? "unknown model" : name,
                  one.options().threads_per_tower);
    context.print("  instruction sets: {}\n", processor_sets());
    std::string sets;
    for (const InstructionSet set : instruction_sets())
      sets += (sets.empty() ? "" : ", ") + std::string(name_of(set));
    context.print("  kernels: {} of {} (BELFRY_ISA chooses)\n", name_of(instruction_set()), sets);
    context.print("  towers = \"cpu:N\"; threads of each: cores / N, or threads_per_tower\n");
    for (const std::string& line : cuda_diagnosis()) context.print("cuda {}\n", line);
    code = kExitOk;
  });
}

}  // namespace belfry
