// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "belfry/optim/statistics.h"
#include "belfry/towers/background.h"
#include "belfry/towers/tower_internal.h"

namespace belfry {

// One model a tower; throws ConfigError for none, and where they differ.
std::vector<std::unique_ptr<Module>> make_replicas(const TowerGroupBase::Factory& make, int towers);
// Once a pattern of `optimizer` and log: that it matches no variable of `model`.
void warn_unmatched(const Optimizer& optimizer, const std::vector<std::string>& variables,
                    const std::string& model, const Log& log);
void require_function(const LossFn& fn);  // throws ConfigError for an empty one
// Throws DataError unless all fields have batch.rows rows, at least 1.
void require_rows(const Batch& batch, std::int64_t update);

struct TowerGroupBase::Impl {
  Impl(Context& context, Optimizer optimizer, const Factory& make, GroupOptions options);

  // Runs body(tower) on every tower's thread and throws the first error that is not a follow-up of
  // another. In a collective body an error ends the others' waits and kills the group.
  template <class F>
  void on_towers(bool collective, F&& body) {
    require_alive();
    struct AtWork {
      std::atomic<int>& count;
      explicit AtWork(std::atomic<int>& c) : count(c) { ++count; }
      ~AtWork() { --count; }
    } const mark(at_work);
    std::vector<std::exception_ptr> errors(towers.size());
    shared.context->host().run(static_cast<int>(towers.size()), [&](int t) {
      try {
        body(t);
      } catch (...) {
        errors[static_cast<std::size_t>(t)] = std::current_exception();
        if (!collective) return;
        transport->control(t).abort();
        towers[static_cast<std::size_t>(t)]->drain();
      }
    });
    throw_first(errors, collective);
  }

  // group_checks.cpp
  void require_alive() const;
  void require_context() const;
  void require_between(const char* call) const;  // what reads or writes all of the group
  std::size_t place_of(int tower) const;         // throws ConfigError where there is none
  void throw_first(const std::vector<std::exception_ptr>& errors, bool fatal);
  std::vector<float> checked_average(const AveragedGradients& averaged) const;
  void log_placement(const std::vector<TowerResult>& results) const;
  Report counted(const UpdateInput& in, const Batch& batch, const LossFn& fn);
  Report run(const UpdateInput& in, const Batch& batch, const LossFn& fn);
  [[noreturn]] void throw_refused(const UpdateInput& in,
                                  const std::vector<TowerResult>& results) const;
  Report report(const UpdateInput& in, const Batch& batch, const std::vector<TowerResult>& results);
  void warn_skipped(const Report& report) const;
  Clock clock(const Batch& batch) const;
  Batch shard(const Batch& batch, int tower) const;
  void complete(const Batch& batch) const;  // waits until other devices may read it
  std::vector<float> whole(FlatArray what, int k);
  void set_whole(FlatArray what, int k, const std::vector<float>& flat);
  std::vector<GroupArray> cut(const std::string& kind, const std::vector<float>& flat) const;
  std::vector<GroupArray> of_last_run(const std::string& kind, FlatArray what);
  std::vector<GroupArray> states();
  // The states' values with those of `arrays` in their places; empty where there are none.
  std::vector<float> with_states(const std::vector<GroupArray>& arrays);
  void log_states() const;
  void initialize();
  void check_replicas();

  std::weak_ptr<const void> life;  // the context's
  Log log;                         // the context's
  std::atomic<int> at_work{0};     // calls of on_towers() under way
  EngineShared shared;
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Tower>> towers;
  NoiseScale noise;
  std::int64_t updates = 0, attempts = 0, rows = 0;
  std::vector<std::string> skipped;  // of the last run: their arrays are those of an earlier one
  bool dead = false;
  Impl* lost_before = nullptr;
  std::unique_ptr<BackgroundTask> background;  // last: ends before what it uses
};

}  // namespace belfry
