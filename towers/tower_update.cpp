// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "belfry/autodiff/device_scope.h"
#include "belfry/core/error.h"
#include "belfry/towers/tower_internal.h"

namespace belfry {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// The update of this tower. Whatever is thrown before the record or during backward goes into `out`
// and all towers refuse the update; whatever is thrown later leaves this function and kills the
// group.
void Tower::update(const UpdateInput& in, const Batch& shard, const LossFn& fn, TowerResult& out) {
  device_.bind_thread();
  const double begin = now();
  mover_->start(in.update, shared_.fused && in.kind == UpdateInput::Kind::train);
  HostPart part = new_part(in, shard);
  const LeafPlan& leaves = shared_.plan.leaves;
  Unit last;
  units_ = static_cast<int>(micro_batches(shard.rows).size());
  leaves_.clear();
  stack_ = LeafStack();
  weights_.clear();
  summed_ = judged_ = filled_ = false;
  outcome_.start();
  if (states_ && in.kind != UpdateInput::Kind::apply) states_->start();
  if (leaves.strict && in.kind != UpdateInput::Kind::apply) start_leaves(in.rows);
  recorder_.as_given();
  try {
    if (shared_.options.capture && in.kind == UpdateInput::Kind::train && shard.rows > 0)
      recorder_.choose(in.update, shard, in.rows, shared_.options.check_capture);
    if (in.kind == UpdateInput::Kind::apply)
      load_averaged(*in.averaged, part);
    else
      forward_all(in, shard, fn, part, last);
  } catch (...) {
    recorder_.abandon();
    out.error = std::current_exception();
    part.flags |= HostPart::kThrew;
  }
  if (shared_.stop_asked.load()) part.flags |= HostPart::kStop;
  const double recorded = now();
  std::vector<HostPart> parts;
  for (const auto& bytes : control_.all_gather(part.encode()))
    parts.push_back(HostPart::decode(bytes));
  out.decision = decide(parts, shared_.plan.index, shared_.trainable, shared_.optimizer.missing,
                        leaves.strict ? "virtual shard" : "tower");
  const double gathered = now();
  if (out.decision.kind == Decision::Kind::refuse) {
    out.refused = true;
    out.refusal = out.decision.error;
    recorder_.abandon();
    device_.synchronize();
    return;
  }
  const auto takes = [](auto& p) { return (p.flags & HostPart::kTakesMemory) != 0; };
  held_ = !device_.host_memory() &&
          (seen_.add(parts) || std::any_of(parts.begin(), parts.end(), takes));
  average(in, shard, fn, taking_part(in, parts), last, out);
  out.exposed += gathered - recorded;
  out.forward_backward -= begin + gathered - recorded;
}

HostPart Tower::new_part(const UpdateInput& in, const Batch& shard) const {
  const LeafPlan& leaves = shared_.plan.leaves;
  HostPart part;
  part.update = in.update;
  part.rows = shard.rows;
  part.start(variables_.size(),
             leaves.strict ? static_cast<std::uint32_t>(leaves.shard_count(index_)) : 1);
  return part;
}

// Which towers the transport's sum takes, or which sources the fold adds up: of towers with rows;
// in strict mode all, since a leaf without rows is a sum of 0. Gradients that are applied as they
// are lie in the first slot of tower 0.
std::vector<char> Tower::taking_part(const UpdateInput& in,
                                     const std::vector<HostPart>& parts) const {
  const bool apply = in.kind == UpdateInput::Kind::apply;
  std::vector<char> out;
  for (std::size_t t = 0; t < parts.size() && shared_.plan.leaves.summed; ++t)
    out.push_back(parts[t].units != 0);
  if (shared_.plan.leaves.summed) return out;
  for (const LeafSource& s : shared_.plan.leaves.sources)
    out.push_back((shared_.plan.leaves.strict && !apply) ||
                  (parts[static_cast<std::size_t>(s.tower)].units != 0 && s.slot == 0));
  return out;
}

// Backward of the last unit, exchange, fold, verdict, update.
void Tower::average(const UpdateInput& in, const Batch& shard, const LossFn& fn,
                    const std::vector<char>& takes_part, Unit& last, TowerResult& out) {
  bool opened = false;
  const auto open = [&] {
    if (std::exchange(opened, true)) return;
    tables_.upload(in, out.decision);
    mover_->begin_exchange(takes_part);
  };
  if (!recorder_.capturing()) open();
  bucket_left_ = shared_.bucket_variables;
  complete_.assign(variables_.size(), 0);
  bucket_done_.assign(shared_.plan.buckets.size(), 0);
  try {
    backward_all(in, shard, fn, last, open, out);
  } catch (...) {
    if (exchange_broken_) throw;
    recorder_.abandon();
    out.error = std::current_exception();
    open();
    mover_->fail();
  }
  if (held_) control_.barrier();
  finish_buckets();
  if (states_ && in.kind != UpdateInput::Kind::average_only) states_->exchange(in.update);
  const double backward_end = now();
  out.forward_backward = backward_end;
  Work work;
  double update_begin = backward_end;
  const bool fused = shared_.fused && in.kind == UpdateInput::Kind::train;
  while (mover_->next_fold(work)) {
    sum_parts();
    if (!fused) {
      fold(in, work);
      continue;
    }
    if (mover_->any_failed()) continue;
    if (!filled_) update_begin = now();
    fill_scalars();
    fold(in, work);
    apply(work);
  }
  if (fused && !filled_) update_begin = now();  // the others took all blocks
  const SegmentStats* stats = mover_->gather_statistics();
  if (!fused) update_begin = now();
  conclude(in, fused, stats, out);
  const double end = now();
  out.exposed = update_begin - backward_end;
  out.update = end - update_begin;
}

void Tower::sum_parts() {
  if (std::exchange(summed_, true)) return;
  launch_elements(device_.main(), 1,
                  SumParts{mover_->parts(), shared_.plan.towers * shared_.plan.leaves.parts,
                           outcome_.totals()});
}

// Whether the update may happen, on the device. The host learns of it without the device waiting:
// what follows, update and gather, runs while the host prepares the next update.
void Tower::reach_verdict(const SegmentStats* stats) {
  if (std::exchange(judged_, true)) return;
  sum_parts();
  const Optimizer& o = shared_.optimizer;
  const double limit = o.clip == Clip::global_norm ? o.clip_limit : 0;
  launch_rows(
      device_.main(), 1,
      ReachVerdict{shared_.fold.statistics ? stats : nullptr, shared_.plan.index.segments().size(),
                   static_cast<float>(limit), o.guard, outcome_.totals(), outcome_.verdict()});
  outcome_.send();
}

void Tower::fill_scalars() {
  if (std::exchange(filled_, true)) return;
  reach_verdict(nullptr);
  launch_elements(device_.main(), variables_.size(),
                  FillScalars{tables_.variable_plan(), outcome_.verdict(), tables_.lr(),
                              tables_.steps(), tables_.scalars()});
}

// The end of an update: everything is put on the streams, then the host waits for the outcome, on
// GPUs not for the update itself.
void Tower::conclude(const UpdateInput& in, bool fused, const SegmentStats* stats,
                     TowerResult& out) {
  reach_verdict(stats);
  if (mover_->any_failed()) seen_ = {};  // what broke off has not taken all its memory
  const bool updates = !mover_->any_failed() && in.kind != UpdateInput::Kind::average_only;
  if (updates && in.kind == UpdateInput::Kind::apply && shared_.plan.keep_squares) {
    mover_->write(FlatArray::square, 0, in.squares->data());
    control_.barrier();  // everybody's part is there before anybody updates
  }
  if (updates) {
    fill_scalars();  // in the fused way a tower without work still counts the step
    if (shared_.plan.layerwise) scale_rates();
    Work work;
    while (!fused && mover_->next_update(work)) apply(work);
    if (states_) states_->apply(outcome_.verdict());
  }
  mover_->finish(updates);
  note_outcome(out);
  const bool bad = shared_.optimizer.guard && out.verdict.bad > 0;
  out.refused = mover_->any_failed() || out.verdict.ok == 0;
  const bool took_part = in.kind == UpdateInput::Kind::apply ? index_ == 0 : units_ > 0;
  if (bad && took_part) find_bad(out);
}

void Tower::note_outcome(TowerResult& out) {
  const DeviceOutcome outcome = outcome_.read(out.metrics);
  mover_->require_healthy();
  out.verdict = outcome.verdict;
  out.totals = outcome.totals;
  if (outcome.fault.found == 0 || out.error) return;
  try {
    throw_label(outcome.fault.row, outcome.fault.label, outcome.fault.classes);
  } catch (...) {
    out.error = std::current_exception();
  }
}

// On the error path only: which of this tower's variables carry non-finite numbers.
void Tower::find_bad(TowerResult& out) {
  std::vector<DevicePart> parts(static_cast<std::size_t>(shared_.plan.leaves.parts));
  device_.main().fetch(parts.data(), mover_->part(), parts.size() * sizeof(DevicePart));
  for (const DevicePart& p : parts) out.bad_loss = out.bad_loss || !std::isfinite(p.loss);
  std::vector<float> g(shared_.plan.index.elements()), sum(g.size());
  for (int slot = 0; slot < std::max(stack_.size(), 1); ++slot) {
    // What has no weight takes no part: a leaf on its own, or all units of this tower.
    const auto k = static_cast<std::size_t>(slot);
    float weight = parts[0].weight;
    if (k < weights_.size() && weights_[k] == nullptr) weight = 1;
    if (k < weights_.size() && weights_[k] != nullptr)
      device_.main().fetch(&weight, weights_[k], sizeof weight);
    if (!shared_.lone && !(weight > 0)) continue;
    device_.main().fetch(g.data(), mover_->gradient(slot), g.size() * sizeof(float));
    for (std::size_t i = 0; i < g.size(); ++i) sum[i] += g[i] * 0;  // 0, or NaN
  }
  for (std::size_t v = variables_.size(); v-- > 0;) {  // construction order
    const FlatVariable& f = shared_.plan.index.variables()[v];
    if (out.decision.present[v] == 0) continue;
    for (std::size_t i = 0; i < f.size; ++i)
      if (sum[f.offset + i] != 0) {
        out.bad_variable = f.name;
        return;
      }
  }
}

GradientList Tower::gradients(std::int64_t update, const Batch& shard, const LossFn& fn,
                              double& weight, double& loss) {
  device_.bind_thread();
  const Settled settled(device_.main());  // the caller's rows may go
  UpdateInput in;
  in.update = update;
  std::vector<char> present(variables_.size(), 0);
  reset_sinks(mover_->gradient());
  outcome_.start();
  stack_ = LeafStack();
  if (states_) states_->start();  // what the units contribute stays for an apply()
  recorder_.as_given();
  device_.main().fill(mover_->part(), 0, sizeof(DevicePart));
  const std::vector<RowPart> micro = micro_batches(shard.rows);
  bool first = true;
  for (const RowPart& r : micro) {
    Unit unit = forward(in, shard.slice(r.first, r.count), fn);
    add_unit(unit, mover_->part(), std::exchange(first, false));
    HostPart part;
    note_presence(unit, part, 0);
    for (std::size_t v = 0; v < present.size(); ++v)
      present[v] = static_cast<char>(present[v] | present_here_[v]);
    backward(unit, micro.size() > 1);
  }
  GradientList out;
  for (std::size_t v = variables_.size(); v-- > 0;) {
    const FlatVariable& f = shared_.plan.index.variables()[v];
    if (present[v] == 0) {
      out.emplace_back(Tensor(), f.name);
      continue;
    }
    Tensor g = Tensor::empty(f.shape, DType::f32, device_);
    device_.main().copy(g.raw(), mover_->gradient() + f.offset, g.bytes());
    if (micro.size() > 1)
      launch_elements(device_.main(), f.size, DivideBy{g.data<float>(), &mover_->part()->weight});
    out.emplace_back(g, f.name);
  }
  DevicePart part;
  device_.main().fetch(&part, mover_->part(), sizeof part);
  if (part.faults > 0) outcome_.require_labels();
  weight = static_cast<double>(part.weight);
  loss = part.weight > 0 ? static_cast<double>(part.loss / part.weight) : 0;
  return out;
}

Loss Tower::evaluate(const Batch& shard, const EvalFn& fn, Step& step) {
  device_.bind_thread();
  const Settled settled(device_.main());  // the caller's rows may go
  outcome_.start();
  const Batch batch = on_device(shard);
  const Scope scope({nullptr, false, shared_.context->seed(), 0, batch.first_row, batch.rows,
                     nullptr, outcome_.fault()});
  const TowerPass pass(device_, shared_.devices);
  step.tower = index_;
  Loss loss = fn(*module_, batch, step);
  require_loss(loss);
  for (const auto& [name, metric] : step.metrics) require_metric(name, metric);
  return loss;
}

void Tower::drain() noexcept {
  if (recorder_.capturing()) recorder_.abandon();        // else nothing could be waited for
  for (int failures = 0; failures < 1000; ++failures) {  // a dead device fails for ever
    try {
      device_.synchronize();
      return;
    } catch (...) {  // one failed operation less
    }
  }
}

}  // namespace belfry
