// SPDX-License-Identifier: MIT
// A short training run with everything that can go wrong between streams, on any executor.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "belfry/device/context.h"
#include "belfry/tests/sim/scheduler.h"
#include "belfry/towers/group.h"

namespace belfry::sim {

enum class Way : std::uint8_t { shared, replicated, collectives };  // collectives: simulator only

struct Run {
  std::string label;
  int towers = 4;
  Way way = Way::shared;
  std::function<Optimizer()> optimizer;
  std::int64_t rows = 16, batch = 7;  // the last batch of an epoch is short
  std::int64_t updates = 3;
  bool shuffle = true;
  std::int64_t prefetch = 1;
  bool branch = false;  // a variable that only some updates reach
  bool norm = false;    // batch norm: a state that is exchanged
  bool capture = false;
  bool evaluate = false;  // between the updates
  std::int64_t check_replicas = 0;
};

// Orders of execution to try: runs with batch norm or recorded passes take several times as long.
inline std::uint64_t orders(const Run& run, std::uint64_t usual) {
  return run.norm || run.capture ? (usual + 4) / 5 : usual;
}

struct Outcome {
  std::string hash;
  std::vector<double> losses;
  std::string error;  // of the class and text that ended it
  std::vector<std::string> reports;
  std::string failed_call;
  std::uint64_t calls = 0, operations = 0;
  std::map<int, std::uint64_t> waits, syncs;                       // by device
  std::set<std::pair<int, std::uint64_t>> idle_waits, idle_syncs;  // that order nothing new
  double critical_path = 0;
  std::map<std::string, std::uint64_t> pageable;  // copies of such memory, by name
  std::vector<Traced> trace;
  bool operator==(const Outcome& o) const {
    return hash == o.hash && losses == o.losses && error == o.error;
  }
};

ContextOptions context_options(const Run& run);
GroupOptions group_options(const Run& run);

// Trains on what the options say. Errors end in `out`.
void run_in(const Run& run, const ContextOptions& context, const GroupOptions& group, Outcome& out);
void note(const Scheduler& scheduler, Outcome& out);  // its reports and counts

Outcome run_plain(const Run& run, Executor executor = Executor::in_place);
// With `separate_memory` on devices like GPUs, where Way::shared becomes replicated.
Outcome run_simulated(const Run& run, const SchedulerOptions& options,
                      bool separate_memory = false);

// On DeclaredPlatform; not for Way::collectives.
Outcome run_declared(const Run& run);

std::vector<Run> all_runs(int towers);

}  // namespace belfry::sim
