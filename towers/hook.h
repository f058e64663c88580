// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/towers/report.h"

namespace belfry {

class TrainRun;

// Numbers of a hook that a checkpoint keeps: the best score, patience, counts.
using HookState = std::map<std::string, double>;

// Something that watches a training run and may stop it. Called on the trainer's thread, between
// updates, in the order of order() and then of names. What a hook throws ends the run.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual std::string name() const = 0;
  virtual std::string table() const { return name(); }  // of the config, for declare()'s keys
  // Whether the keys are read only when the config has the table.
  virtual bool optional_table() const { return false; }
  virtual int order() const { return 0; }
  virtual void declare(Schema&) {}

  // Throws ConfigError for what cannot work; nothing has been written yet.
  virtual void check(const TrainRun&) {}
  virtual void on_start(TrainRun&) {}
  virtual void on_update(TrainRun&, const Report&) {}
  virtual void on_epoch(TrainRun&, std::int64_t /*epochs done*/) {}
  virtual void on_validation(TrainRun&, const EvalReport&) {}
  // An update was refused for non-finite numbers, nothing was changed; true: go on without it.
  virtual bool on_refused(TrainRun&, const NumericError&) { return false; }
  // Instead of on_update() after such an update: periods go on.
  virtual void on_skipped(TrainRun&) {}
  virtual void on_end(TrainRun&) {}             // complete, stopped or signalled
  virtual void on_abort(TrainRun&) noexcept {}  // an error ends the run

  virtual HookState state() const { return {}; }
  virtual void restore(const HookState&) {}
};

struct HookEntry {
  std::function<std::shared_ptr<Hook>()> make;
  std::string help;
};

// A hook of the registry for Trainer::add(), with keys of its table as a config has them:
// make_hook(builtin(), "early_stop", "patience = 3"). Throws ConfigError for an unknown name or
// key.
std::shared_ptr<Hook> make_hook(const Registry& registry, const std::string& name,
                                const std::string& keys = "");

}  // namespace belfry
