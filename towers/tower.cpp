// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/optim/ema.kernel.h"
#include "belfry/towers/tower_internal.h"

namespace belfry {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Device memory for `n` plain structs.
template <class T>
Tensor table(std::size_t n, Device& device) {
  return Tensor::zeros(Shape{static_cast<std::int64_t>(std::max<std::size_t>(n, 1) * sizeof(T))},
                       DType::u8, device);
}
template <class T>
T* as(const Tensor& t) {
  return static_cast<T*>(t.raw());
}

}  // namespace

Tower::Tower(const EngineShared& shared, int index, std::unique_ptr<Module> module,
             Transport& transport)
    : shared_(shared),
      index_(index),
      device_(shared.context->device(index)),
      control_(transport.control(index)),
      module_(std::move(module)),
      mover_(transport.mover(index, shared.plan)) {
  variables_ = module_->variables();
  std::reverse(variables_.begin(), variables_.end());
  const std::size_t n = variables_.size();
  sinks_.resize(n);
  for (std::size_t v = 0; v < n; ++v) {
    variables_[v]->set_trainable(shared.trainable[v] != 0);
    sinks_[v].complete = [this, v] { variable_complete(static_cast<int>(v)); };
  }
  std::vector<SegmentRef> refs;
  for (const Segment& s : shared.plan.index.segments())
    refs.push_back({s.offset, static_cast<unsigned>(s.size), s.variable});
  std::vector<int> only_part;
  const LeafPlan& leaves = shared.plan.leaves;
  for (const LeafSource& s : leaves.sources)
    only_part.push_back(s.leaf < 0 ? -1 : leaves.part_of(s.leaf));
  const Settled settled(device_.main());  // after what it copies from
  segments_ = table<SegmentRef>(refs.size(), device_);
  device_.main().copy(segments_.raw(), refs.data(), refs.size() * sizeof(SegmentRef));
  fold_plan_ = table<FoldPlan>(n, device_);
  variable_plan_ = table<VariablePlan>(n, device_);
  steps_ = Tensor::zeros(Shape{static_cast<std::int64_t>(n)}, DType::f32, device_);
  scalars_ = table<UpdateScalars>(n, device_);
  verdict_ = table<Verdict>(1, device_);
  totals_ = table<Totals>(1, device_);
  lr_ = Tensor::zeros(Shape{1}, DType::f32, device_);
  if (shared.plan.unit_squares && !shared.plan.leaves.strict)
    unit_gradient_ = Tensor::zeros(Shape{static_cast<std::int64_t>(shared.plan.index.elements())},
                                   DType::f32, device_);
  if (leaves.strict && !shared.lone) {
    only_part_ = table<int>(only_part.size(), device_);
    device_.main().copy(only_part_.raw(), only_part.data(), only_part.size() * sizeof(int));
  }
  if (!leaves.regular) {
    merges_ = table<std::uint8_t>(leaves.merges.size(), device_);
    device_.main().copy(merges_.raw(), leaves.merges.data(), leaves.merges.size());
  }
  bind(mover_->parameters());
  device_.synchronize();
}

void Tower::bind(float* flat) {
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const FlatVariable& f = shared_.plan.index.variables()[v];
    variables_[v]->bind(Tensor::wrap(flat + f.offset, f.shape, DType::f32, device_), &sinks_[v]);
  }
}

std::vector<RowPart> Tower::micro_batches(std::int64_t rows) const {
  std::vector<RowPart> out;
  for (std::int64_t k = 0; k < shared_.optimizer.accumulate; ++k) {
    const RowPart r = part_of(rows, k, shared_.optimizer.accumulate);
    if (r.count > 0) out.push_back(r);
  }
  return out;
}

Batch Tower::on_device(const Batch& batch) const {
  Batch moved;
  for (const std::string& name : batch.names()) moved.add(name, batch[name].on(device_));
  moved.rows = batch.rows;
  moved.first_row = batch.first_row;
  moved.rows_per_epoch = batch.rows_per_epoch;
  moved.full_rows = batch.full_rows;
  moved.epoch = batch.epoch;
  return moved;
}

Tower::Unit Tower::forward(const UpdateInput& in, const Batch& rows, const LossFn& fn,
                           TowerResult& out) {
  Unit unit;
  unit.tape = std::make_unique<Tape>();
  const Batch batch = on_device(rows);
  const Scope scope(
      {unit.tape.get(), true, shared_.context->seed(), in.update, batch.first_row, batch.rows});
  Step step;
  step.training = true;
  step.update = in.update;
  step.tower = index_;
  unit.loss = fn(*module_, batch, step);
  const Tensor& mean = unit.loss.mean;
  const auto scalar = [](const Tensor& t) {
    return t.defined() && t.size() == 1 && t.dtype() == DType::f32;
  };
  if (!scalar(mean) || !scalar(unit.loss.weight))
    throw GradientError(ErrorText{
        .what = "the step function's loss",
        .found = mean.defined()
                     ? "shape " + mean.shape().text() + " " + std::string(name_of(mean.dtype()))
                     : "nothing",
        .expected = "an f32 scalar mean with its weight, as cross_entropy and mse return"});
  for (auto& m : step.metrics) {
    if (!scalar(m.second.sum) || !scalar(m.second.weight))
      throw GradientError(ErrorText{.what = "step.report(\"" + m.first + "\")",
                                    .found = "something else",
                                    .expected = "f32 scalars: a sum and its weight"});
    out.metrics.push_back(std::move(m));
  }
  return unit;
}

void Tower::note_presence(const Unit& unit, HostPart& part, int group) {
  part.called |= std::uint64_t{1} << group;
  const std::vector<bool> reach = unit.tape->reachable(unit.loss.mean);
  present_here_.assign(variables_.size(), 0);
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const int value = variables_[v]->value_on(*unit.tape);
    if (value < 0 || !reach[at(value)]) continue;
    present_here_[v] = 1;
    part.set(static_cast<int>(v), group);
  }
}

void Tower::reset_sinks(float* flat) {
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    sinks_[v].data = flat + shared_.plan.index.variables()[v].offset;
    sinks_[v].written = false;
  }
}

// Where this unit wrote nothing, its gradient is 0.
void Tower::zero_missing() {
  for (std::size_t v = 0; v < variables_.size(); ++v)
    if (!sinks_[v].written)
      device_.main().fill(sinks_[v].data, 0,
                          shared_.plan.index.variables()[v].size * sizeof(float));
}

void Tower::backward(Unit& unit, bool seeded) {
  unit.tape->backward(unit.loss.mean, seeded ? unit.loss.weight : Tensor());
}

void Tower::end_unit(const Unit& unit, bool first) {
  if (!shared_.plan.unit_squares) return;
  zero_missing();
  launch_elements(device_.main(), shared_.plan.index.elements(),
                  AddUnitGradient{unit_gradient_.data<float>(), mover_->gradient(),
                                  mover_->unit_squares(), unit.loss.weight.data<float>(), first});
  reset_sinks(unit_gradient_.data<float>());
}

void Tower::run_units(const UpdateInput& in, const Batch& shard, const LossFn& fn, TowerResult& out,
                      HostPart& part, Unit& last) {
  reset_sinks(shared_.plan.unit_squares ? unit_gradient_.data<float>() : mover_->gradient());
  device_.main().fill(mover_->part(), 0, sizeof(DevicePart));
  const std::vector<RowPart> micro = micro_batches(shard.rows);
  for (std::size_t k = 0; k < micro.size(); ++k) {
    Unit unit = forward(in, shard.slice(micro[k].first, micro[k].count), fn, out);
    launch_elements(device_.main(), 1,
                    AddUnit{unit.loss.mean.data<float>(), unit.loss.weight.data<float>(),
                            mover_->part(), k == 0});
    note_presence(unit, part, 0);
    ++part.units;
    if (k + 1 == micro.size()) {
      last = std::move(unit);
      return;
    }
    backward(unit, !shared_.lone);
    end_unit(unit, k == 0);
  }
}

void Tower::variable_complete(int v) {
  if (buckets_open_) complete_bucket_of(v);
}

void Tower::complete_bucket_of(int v) {
  if (complete_[at(v)] != 0) return;
  complete_[at(v)] = 1;
  for (int b = shared_.first_bucket[at(v)]; b <= shared_.last_bucket[at(v)]; ++b) {
    if (--bucket_left_[at(b)] != 0) continue;
    bucket_done_[at(b)] = 1;
    exchange_broken_ = true;  // unless it returns: then the others would wait for this bucket
    mover_->bucket_ready(b);
    exchange_broken_ = false;
  }
}

void Tower::run_last(Unit& last, TowerResult& out) {
  const bool strict = shared_.plan.leaves.strict;
  const auto rest = [&] {
    for (int i = last_leaf_ + 1; strict && i < static_cast<int>(leaves_.size()); ++i) empty_leaf(i);
  };
  if (!last.tape) return rest();
  buckets_open_ = !shared_.plan.unit_squares && (!strict || leaves_.size() == 1);
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    if (present_here_[v] != 0) continue;
    if (buckets_open_ && !sinks_[v].written && out.decision.present[v] != 0)
      device_.main().fill(sinks_[v].data, 0,
                          shared_.plan.index.variables()[v].size * sizeof(float));
    variable_complete(static_cast<int>(v));
  }
  backward(last, !shared_.lone);
  if (strict)
    end_leaf(last_leaf_);
  else
    end_unit(last, units_ == 1);
  rest();
  if (shared_.options.log_placement) out.placement = last.tape->placement();
}

void Tower::finish_buckets() {
  buckets_open_ = false;
  for (std::size_t b = 0; b < bucket_done_.size(); ++b)
    if (bucket_done_[b] == 0) mover_->bucket_ready(static_cast<int>(b));
}

// The averaged gradients as tower 0's own; checked by the group.
void Tower::load_averaged(const AveragedGradients& averaged, HostPart& part) {
  device_.main().fill(mover_->part(), 0, at(shared_.plan.leaves.parts) * sizeof(DevicePart));
  if (index_ != 0) return;
  static constexpr DevicePart kOne{1, 0, 1};
  device_.main().copy(mover_->part(), &kOne, sizeof kOne);
  for (const GradientPair& p : averaged.mean) {
    const int v = shared_.plan.index.find(p.variable);
    const FlatVariable& f = shared_.plan.index.variables()[at(v)];
    device_.main().copy(mover_->gradient() + f.offset, p.gradient.raw(), p.gradient.bytes());
    part.set(v, 0);
  }
  part.units = 1;
  part.called = 1;
}

void Tower::upload_plan(const UpdateInput& in, const Decision& d) {
  device_.main().host_access(
      Touches()
          .writes(host_fold_plan_.data(), host_fold_plan_.size() * sizeof(FoldPlan))
          .writes(host_variable_plan_.data(), host_variable_plan_.size() * sizeof(VariablePlan))
          .writes(&host_lr_, sizeof host_lr_));
  host_fold_plan_ = shared_.fold_plan;
  host_variable_plan_.resize(variables_.size());
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    host_fold_plan_[v].present = d.present[v] != 0 ? 1.f : 0.f;
    host_variable_plan_[v] = {shared_.decay[v], host_fold_plan_[v].present};
  }
  host_lr_ = static_cast<float>(in.lr);
  Stream& s = device_.main();
  s.copy(fold_plan_.raw(), host_fold_plan_.data(), host_fold_plan_.size() * sizeof(FoldPlan));
  s.copy(variable_plan_.raw(), host_variable_plan_.data(),
         host_variable_plan_.size() * sizeof(VariablePlan));
  s.copy(lr_.raw(), &host_lr_, sizeof host_lr_);
}

void Tower::fold(const UpdateInput& in, const Work& w) {
  const std::size_t s0 = shared_.plan.index.first_segment(w.first_block);
  const std::size_t s1 = shared_.plan.index.first_segment(w.first_block + w.blocks);
  FoldConfig config = shared_.fold;
  const bool apply = in.kind == UpdateInput::Kind::apply;
  if (apply) config.divide = false;
  launch_fold(device_.main(), s1 - s0,
              {as<SegmentRef>(segments_) + s0, as<FoldPlan>(fold_plan_), w.sources, w.square_in,
               merges_.defined() ? as<std::uint8_t>(merges_) : nullptr,
               only_part_.defined() && !apply ? as<int>(only_part_) : nullptr, mover_->parts(),
               as<Totals>(totals_), w.param, w.mean, w.square, mover_->statistics() + s0, w.origin,
               w.mean_origin, static_cast<int>(shared_.plan.leaves.sources.size()),
               shared_.plan.towers * shared_.plan.leaves.parts, config});
}

void Tower::apply(const Work& w) {
  const FlatIndex& index = shared_.plan.index;
  const std::size_t end = index.first_segment(w.first_block + w.blocks);
  float* state[kMaxStates];
  for (std::size_t i = index.first_segment(w.first_block); i < end; ++i) {
    const Segment& seg = index.segments()[i];
    if (host_fold_plan_[at(seg.variable)].present == 0) continue;
    const std::size_t o = seg.offset - w.origin;
    for (int k = 0; k < shared_.plan.states; ++k) state[k] = w.state[k] + o;
    const UpdateScalars* scalars = as<UpdateScalars>(scalars_) + seg.variable;
    shared_.optimizer.rule->update(device_.main(),
                                   {seg.size, w.param + o, w.mean + (seg.offset - w.mean_origin),
                                    w.square == nullptr ? nullptr : w.square + o, state, scalars});
    if (shared_.plan.ema)
      launch_elements(device_.main(), seg.size,
                      EmaUpdate{w.ema + o, w.param + o, &scalars->step, shared_.optimizer.ema});
  }
}

}  // namespace belfry
