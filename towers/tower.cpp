// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/autodiff/device_scope.h"
#include "belfry/core/error.h"
#include "belfry/towers/tower_internal.h"

namespace belfry {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Tower::Tower(const EngineShared& shared, int index, std::unique_ptr<Module> module,
             Transport& transport)
    : shared_(shared),
      index_(index),
      device_(shared.context->device(index)),
      control_(transport.control(index)),
      module_(std::move(module)),
      mover_(transport.mover(index, shared.plan)),
      tables_(shared, device_),
      outcome_(device_),
      recorder_(device_) {
  variables_ = module_->variables();
  std::reverse(variables_.begin(), variables_.end());
  const std::size_t n = variables_.size();
  sinks_.resize(n);
  for (std::size_t v = 0; v < n; ++v) {
    variables_[v]->set_trainable(shared.trainable[v] != 0);
    sinks_[v].complete = [this, v] { variable_complete(static_cast<int>(v)); };
  }
  if (shared_.plan.unit_squares && !shared_.plan.leaves.strict)
    unit_gradient_ = Tensor::zeros(Shape{static_cast<std::int64_t>(shared_.plan.index.elements())},
                                   DType::f32, device_);
  if (std::vector<ModuleState*> states = module_->states(); !states.empty())
    states_ = std::make_unique<StateExchange>(std::move(states), shared.plan.leaves, device_,
                                              transport.communicator(index), mover_->collectives());
  bind(mover_->parameters());
}

void Tower::bind(float* flat) {
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const FlatVariable& f = shared_.plan.index.variables()[v];
    variables_[v]->bind(Tensor::wrap(flat + f.offset, f.shape, DType::f32, device_), &sinks_[v],
                        [this, v] {
                          for (int b = shared_.first_bucket[v]; b <= shared_.last_bucket[v]; ++b)
                            mover_->await_parameters(b);
                        });
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
  moved.place(batch);
  return moved;
}

Tower::Unit Tower::forward(const UpdateInput& in, const Batch& rows, const LossFn& fn) {
  Unit unit;
  unit.tape = std::make_unique<Tape>();
  if (states_) states_->start_unit();
  const Batch batch = on_device(rows);
  const PassNumbers* numbers = recorder_.numbers();
  const Scope scope({unit.tape.get(), true, shared_.context->seed(),
                     numbers != nullptr ? 0 : in.update, batch.first_row - recorder_.base_row(),
                     batch.rows, numbers, outcome_.fault()});
  const TowerPass pass(device_, shared_.devices);
  Step step;
  step.training = true;
  step.update = in.update;
  step.tower = index_;
  unit.loss = fn(*module_, batch, step);
  require_loss(unit.loss);
  for (auto& m : step.metrics) {
    require_metric(m.first, m.second);
    outcome_.add_metric(std::move(m));
  }
  recorder_.note(*unit.tape);
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

void Tower::add_unit(const Unit& unit, DevicePart* part, bool first) {
  launch_elements(device_.main(), 1,
                  AddUnit{unit.loss.mean.data<float>(), unit.loss.weight.data<float>(),
                          outcome_.fault(), part, first});
  if (states_) states_->end_unit(stack_.size(), first, unit.loss.weight.data<float>());
}

void Tower::run_units(const UpdateInput& in, const Batch& shard, const LossFn& fn, HostPart& part,
                      Unit& last) {
  reset_sinks(shared_.plan.unit_squares ? unit_gradient_.data<float>() : mover_->gradient());
  device_.main().fill(mover_->part(), 0, sizeof(DevicePart));
  const std::vector<RowPart> micro = micro_batches(shard.rows);
  for (std::size_t k = 0; k < micro.size(); ++k) {
    Unit unit = forward(in, shard.slice(micro[k].first, micro[k].count), fn);
    add_unit(unit, mover_->part(), k == 0);
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
    mover_->mark_bucket(b);
    if (recorder_.capturing())
      recorder_.pass().buckets.push_back(b);
    else
      release(b);
  }
}

// To the exchange, once.
void Tower::release(int bucket) {
  bucket_done_[at(bucket)] = 1;
  exchange_broken_ = true;  // unless it returns: then the others would wait for this bucket
  mover_->bucket_ready(bucket);
  exchange_broken_ = false;
}

void Tower::run_last(Unit& last, TowerResult& out) {
  const bool strict = shared_.plan.leaves.strict;
  const auto rest = [&] {
    for (int i = last_leaf_ + 1; strict && i < static_cast<int>(leaves_.size()); ++i) empty_leaf(i);
  };
  if (!last.tape) return rest();
  const bool whole = !shared_.plan.unit_squares && (!strict || leaves_.size() == 1);
  buckets_open_ = whole && (!held_ || recorder_.capturing());
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    if (present_here_[v] != 0) continue;
    if (whole && !sinks_[v].written && out.decision.present[v] != 0)
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
  for (std::size_t b = 0; b < bucket_done_.size(); ++b) {
    if (bucket_done_[b] != 0) continue;
    mover_->mark_bucket(static_cast<int>(b));
    mover_->bucket_ready(static_cast<int>(b));
  }
}

// The averaged gradients as tower 0's own; checked by the group.
void Tower::load_averaged(const AveragedGradients& averaged, HostPart& part) {
  device_.main().fill(mover_->part(), 0, at(shared_.plan.leaves.parts) * sizeof(DevicePart));
  if (index_ != 0) return;
  launch_elements(device_.main(), 1, SetPart{mover_->part(), {.weight = 1, .units = 1}});
  for (const GradientPair& p : averaged.mean) {
    const int v = shared_.plan.index.find(p.variable);
    const FlatVariable& f = shared_.plan.index.variables()[at(v)];
    device_.main().copy(mover_->gradient() + f.offset, p.gradient.raw(), p.gradient.bytes());
    part.set(v, 0);
  }
  part.units = 1;
  part.called = 1;
}

Tower::Rows Tower::rows_of(const Work& w) const {
  const FlatIndex& index = shared_.plan.index;
  return {index.first_segment(w.first_block), index.first_segment(w.first_block + w.blocks),
          w.first_block * kBlock, w.blocks * kBlock};
}

void Tower::fold(const UpdateInput& in, const Work& w) {
  const Rows rows = rows_of(w);
  FoldConfig config = shared_.fold;
  const bool apply = in.kind == UpdateInput::Kind::apply;
  if (apply) config.divide = false;
  launch_fold(device_.main(), rows.end - rows.begin,
              {.segments = tables_.segments() + rows.begin,
               .first = rows.first,
               .count = rows.size,
               .plan = tables_.fold_plan(),
               .variables = variables_.size(),
               .sources = w.sources,
               .square_in = w.square_in,
               .host_sources = w.host_sources,
               .host_square_in = w.host_square_in,
               .merges = tables_.merges(),
               .only_part = apply ? nullptr : tables_.only_part(),
               .parts = mover_->parts(),
               .totals = outcome_.totals(),
               .param = w.param,
               .mean = w.mean,
               .square = w.square,
               .stats = mover_->statistics() + rows.begin,
               .origin = w.origin,
               .mean_origin = w.mean_origin,
               .n = static_cast<int>(shared_.plan.leaves.sources.size()),
               .part_count = shared_.plan.towers * shared_.plan.leaves.parts,
               .config = config});
}

UpdateArgs Tower::update_args(const Work& w) {
  const Rows rows = rows_of(w);
  UpdateArgs args{.rows = rows.end - rows.begin,
                  .segments = tables_.segments() + rows.begin,
                  .first = rows.first,
                  .size = rows.size,
                  .origin = w.origin,
                  .grad_origin = w.mean_origin,
                  .param = w.param,
                  .grad = w.mean,
                  .square = w.square,
                  .scalars = tables_.scalars(),
                  .variables = variables_.size(),
                  .ema = shared_.plan.ema ? w.ema : nullptr,
                  .ema_decay = shared_.optimizer.ema};
  for (int k = 0; k < shared_.plan.states; ++k) args.state[k] = w.state[k];
  return args;
}

void Tower::apply(const Work& w) { shared_.optimizer.rule->update(device_.main(), update_args(w)); }

// The first pass of a rule with layer-wise rates, and the rates that follow from it.
void Tower::scale_rates() {
  Work work;
  while (mover_->next_measure(work))
    shared_.optimizer.rule->measure(device_.main(), update_args(work),
                                    mover_->norms() + rows_of(work).begin);
  const SegmentNorms* norms = mover_->gather_norms();
  launch_rows(
      device_.main(), variables_.size(),
      ScaleRates{norms, shared_.plan.index.segments().size(), tables_.ranges(), tables_.scalars()});
}

}  // namespace belfry
