// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/average_gradients.h"
#include "belfry/allreduce/mover.h"
#include "belfry/autodiff/module.h"
#include "belfry/data/loader.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/group_state.h"
#include "belfry/towers/report.h"

namespace belfry {

class BackgroundTask;

using LossFn = std::function<Loss(Module&, const Batch&, Step&)>;
using EvalFn = std::function<Loss(Module&, const Batch&, Step&)>;

// N replicas of a model on the context's devices, trained as one: each step splits the batch over
// the towers, averages their gradients and applies one update. Owns the replicas, the parameters
// and the optimizer's state. Used by one thread, which works as tower 0 during step().
//
// Any error leaves parameters, state and clocks as before the update, a NumericError but for the
// clock of the learning rate. GradientError (a gradient missing on some towers), NumericError (not
// finite) and errors thrown by the user's function name rank, tower and update, and training may go
// on; after CommError or DeviceError the group may only be destroyed.
class TowerGroupBase {
 public:
  using Factory = std::function<std::unique_ptr<Module>()>;
  TowerGroupBase(Context& context, Optimizer optimizer, const Factory& make,
                 GroupOptions options = {});
  ~TowerGroupBase();
  TowerGroupBase(const TowerGroupBase&) = delete;
  TowerGroupBase& operator=(const TowerGroupBase&) = delete;

  // fn runs concurrently, once a unit that has rows: never on a tower without.
  Report step(const Batch& batch, const LossFn& fn);
  // The stages of step(): gradients, average_gradients() in between, apply.
  TowerGradients gradients(const Batch& batch, const LossFn& fn);
  Report apply(const AveragedGradients& averaged);
  // The averaged gradient step() would apply, by variable in construction order, without skipped
  // variables; changes nothing but what squares() returns.
  std::vector<GroupArray> averaged(const Batch& batch, const LossFn& fn);
  // The mean over units of the squared gradients of the last step() or averaged(), before
  // multipliers and clipping, without skipped variables; with statistics = squares. The Fisher
  // diagonal of EWC is its average over updates.
  std::vector<GroupArray> squares();
  // Runs fn in evaluation mode over the loader's rows; changes nothing. `ema`: with averaged
  // parameters.
  EvalReport evaluate(Loader& loader, const EvalFn& fn, bool ema = false);

  const Optimizer& optimizer() const;
  Context& context() const;
  const FlatIndex& index() const;
  std::vector<std::string> variable_names() const;  // construction order
  Module& replica(int tower);

  // Between updates. Unknown names and other shapes are CheckpointErrors.
  std::vector<float> parameter(const std::string& variable);
  void set_parameter(const std::string& variable, const std::vector<float>& values);
  std::vector<GroupArray> arrays();  // parameters, optimizer state, ema, modules' states
  GroupCopy copy_arrays(bool in_place = false);  // to be kept; in_place: views where there can be
  void set_arrays(const std::vector<GroupArray>& arrays);
  GroupClocks clocks() const;
  void set_clocks(const GroupClocks& clocks);
  // Of names, shapes and values of parameters and modules' states; 16 hex digits.
  std::string parameter_hash();
  double noise_scale() const;  // NaN unless statistics are on
  double snr() const;
  // Ends training on all towers after one update, that of the next record: its Report says `stop`.
  // From any thread, or a signal handler.
  void request_stop() noexcept;
  BackgroundTask& background();  // the save under way; what it threw comes out of step()
  ArenaStats memory(int tower) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The typed face: TowerGroup<Net>(ctx, optimizer); fn gets Net&.
template <class Net>
class TowerGroup : public TowerGroupBase {
 public:
  explicit TowerGroup(Context& context, Optimizer optimizer, GroupOptions options = {})
      : TowerGroupBase(
            context, std::move(optimizer), [] { return std::make_unique<Net>(); },
            std::move(options)) {}

  template <class F>
  Report step(const Batch& batch, F&& fn) {
    return TowerGroupBase::step(batch, typed(fn));
  }
  template <class F>
  TowerGradients gradients(const Batch& batch, F&& fn) {
    return TowerGroupBase::gradients(batch, typed(fn));
  }
  template <class F>
  std::vector<GroupArray> averaged(const Batch& batch, F&& fn) {
    return TowerGroupBase::averaged(batch, typed(fn));
  }
  template <class F>
  EvalReport evaluate(Loader& loader, F&& fn, bool ema = false) {
    return TowerGroupBase::evaluate(loader, typed(fn), ema);
  }

 private:
  template <class F>
  static LossFn typed(F& fn) {
    return [&fn](Module& m, const Batch& b, Step& s) -> Loss {
      return fn(static_cast<Net&>(m), b, s);
    };
  }
};

}  // namespace belfry
