// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/engine.h"

namespace belfry::sim {

void note(const Scheduler& s, Outcome& out) {
  out.reports = s.reports();
  out.failed_call = s.failed_call();
  out.calls = s.calls();
  out.waits = s.waits();
  out.syncs = s.syncs();
  out.idle_waits = s.idle_waits();
  out.idle_syncs = s.idle_syncs();
  out.operations = s.operations();
  out.critical_path = s.critical_path();
  out.trace = s.trace();
}

}  // namespace belfry::sim
