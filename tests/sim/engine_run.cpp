// SPDX-License-Identifier: MIT
#include <memory>

#include "belfry/tests/sim/communicator.h"
#include "belfry/tests/sim/declared.h"
#include "belfry/tests/sim/engine.h"
#include "belfry/tests/sim/platform.h"

namespace belfry::sim {

Outcome run_simulated(const Run& run, const SchedulerOptions& scheduler_options,
                      bool separate_memory) {
  Outcome out;
  const auto platform = std::make_shared<SimPlatform>(scheduler_options, separate_memory);
  Scheduler& s = platform->scheduler();
  ContextOptions options = context_options(run);
  options.platform = platform;
  GroupOptions group = group_options(run);
  if (run.way == Way::collectives) group.make_transport = sim_transport(s);
  run_in(run, options, group, out);
  note(s, out);
  if (separate_memory) out.pageable = platform->memory().pageable_by_name();
  return out;
}

Outcome run_declared(const Run& run) {
  Outcome out;
  const auto platform = std::make_shared<DeclaredPlatform>();
  ContextOptions options = context_options(run);
  options.platform = platform;
  run_in(run, options, group_options(run), out);
  out.reports = platform->memory().reports();
  out.operations = platform->memory().operations();
  return out;
}

}  // namespace belfry::sim
