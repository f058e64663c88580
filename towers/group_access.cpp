// SPDX-License-Identifier: MIT
// Reading and writing a group between updates: arrays, clocks, evaluation.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "belfry/core/checksum.h"
#include "belfry/core/error.h"
#include "belfry/towers/group_internal.h"

namespace belfry {
namespace {

// Sums of one tower's evaluation.
struct EvalSums {
  double loss = 0, weight = 0;
  std::map<std::string, std::pair<double, double>> metrics;
};

void add(EvalSums& sums, const Loss& loss, const Step& step) {
  const double w = loss.weight.item();
  if (w > 0) sums.loss += w * loss.mean.item();
  sums.weight += w;
  for (const auto& [name, metric] : step.metrics) {
    sums.metrics[name].first += metric.sum.item();
    sums.metrics[name].second += metric.weight.item();
  }
}

// The means over all shards, in their order.
void conclude(const std::vector<EvalSums>& sums, EvalReport& out) {
  std::map<std::string, double> weights;
  for (const EvalSums& s : sums) {
    out.loss += s.loss;
    out.weight += s.weight;
    for (const auto& [name, m] : s.metrics) {
      out.metrics[name] += m.first;
      weights[name] += m.second;
    }
  }
  if (out.weight > 0) out.loss /= out.weight;
  for (auto& [name, sum] : out.metrics) sum = weights[name] > 0 ? sum / weights[name] : 0;
}

}  // namespace

EvalReport TowerGroupBase::evaluate(Loader& loader, const EvalFn& fn, bool ema) {
  Impl& i = *impl_;
  const auto begin = std::chrono::steady_clock::now();
  i.require_between("evaluate()");
  require_function(fn);
  if (ema && !i.shared.plan.ema)
    throw ConfigError(ErrorText{.what = "evaluation with averaged parameters",
                                .found = "optimizer.ema = 0",
                                .fix = "train with ema > 0"});
  std::vector<Tensor> copies;
  struct Rebind {  // whatever happens, the towers end on their own parameters
    Impl& impl;
    ~Rebind() {
      for (auto& t : impl.towers) t->bind(t->mover().parameters());
    }
  } rebind{i};
  if (ema) {
    std::vector<float> flat = i.whole(FlatArray::ema, 0);
    for (auto& t : i.towers) {
      if (copies.empty() || !t->device().host_memory()) {  // one for all that can read it
        copies.push_back(
            Tensor::empty(Shape{static_cast<std::int64_t>(flat.size())}, DType::f32, t->device()));
        t->device().main().copy(copies.back().raw(), flat.data(), copies.back().bytes());
        t->device().synchronize();
      }
      t->bind(copies.back().data<float>());
    }
  }
  // Kept by shard and added in their order: in strict mode the same for any number of towers.
  const LeafPlan& plan = i.shared.plan.leaves;
  std::vector<EvalSums> sums(static_cast<std::size_t>(plan.shards));
  EvalReport out;
  Batch batch;
  while (loader.next(batch)) {
    i.complete(batch);
    i.on_towers(false, [&](int t) {
      const int first = plan.first_shard(t);
      for (int v = first; v < first + plan.shard_count(t); ++v) {
        const RowPart r = part_of(batch.rows, v, plan.shards);
        if (r.count == 0) continue;
        Step step;
        Tower& tower = *i.towers[static_cast<std::size_t>(t)];
        const Loss loss = tower.evaluate(batch.slice(r.first, r.count), fn, step);
        tower.require_labels();
        add(sums[static_cast<std::size_t>(v)], loss, step);
      }
    });
    out.rows += batch.rows;
  }
  if (out.rows == 0)
    throw DataError(ErrorText{.what = "evaluation",
                              .found = "0 rows, a loader at its end",
                              .expected = "1 or more",
                              .fix = "seek(0) before it is read again"});
  conclude(sums, out);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

const Optimizer& TowerGroupBase::optimizer() const { return impl_->shared.optimizer; }
Context& TowerGroupBase::context() const { return *impl_->shared.context; }
const FlatIndex& TowerGroupBase::index() const { return impl_->shared.plan.index; }
Module& TowerGroupBase::replica(int tower) {
  impl_->require_context();
  Tower& t = *impl_->towers[impl_->place_of(tower)];
  t.mover().await_parameters();
  return t.module();
}
double TowerGroupBase::noise_scale() const { return impl_->noise.noise_scale(); }
double TowerGroupBase::snr() const { return impl_->noise.snr(); }
ArenaStats TowerGroupBase::memory(int tower) const {
  impl_->require_context();
  return impl_->towers[impl_->place_of(tower)]->device().arena().stats();
}

void TowerGroupBase::request_stop() noexcept { impl_->shared.stop_asked = true; }
BackgroundTask& TowerGroupBase::background() { return *impl_->background; }

std::vector<std::string> TowerGroupBase::variable_names() const {
  std::vector<std::string> out;
  for (const FlatVariable& v : index().variables()) out.insert(out.begin(), v.name);
  return out;
}

std::vector<float> TowerGroupBase::parameter(const std::string& variable) {
  impl_->require_between("parameter()");
  const int v = index().find(variable);
  if (v < 0) {
    const std::string near = nearest_name(variable, variable_names());
    throw CheckpointError(ErrorText{.what = "parameter",
                                    .found = "'" + variable + "'",
                                    .expected = "a variable of the model",
                                    .fix = near.empty() ? "" : "did you mean '" + near + "'?"});
  }
  const FlatVariable& f = index().variables()[static_cast<std::size_t>(v)];
  const std::vector<float> flat = impl_->whole(FlatArray::parameter, 0);
  return {flat.begin() + static_cast<std::ptrdiff_t>(f.offset),
          flat.begin() + static_cast<std::ptrdiff_t>(f.offset + f.size)};
}

void TowerGroupBase::set_parameter(const std::string& variable, const std::vector<float>& values) {
  const int v = index().find(variable);
  set_arrays({{"parameter", variable,
               v < 0 ? Shape{} : index().variables()[static_cast<std::size_t>(v)].shape, values}});
}

std::vector<GroupArray> TowerGroupBase::arrays() {
  Impl& i = *impl_;
  i.require_between("arrays()");
  std::vector<GroupArray> out = i.cut("parameter", i.whole(FlatArray::parameter, 0));
  const auto append = [&](const std::string& kind, FlatArray what, int k) {
    for (GroupArray& a : i.cut(kind, i.whole(what, k))) out.push_back(std::move(a));
  };
  const std::vector<std::string> names = optimizer().rule->state_names();
  for (std::size_t k = 0; k < names.size(); ++k)
    append(names[k], FlatArray::state, static_cast<int>(k));
  if (i.shared.plan.ema) append("ema", FlatArray::ema, 0);
  for (GroupArray& a : i.states()) out.push_back(std::move(a));
  return out;
}

GroupCopy TowerGroupBase::copy_arrays(bool in_place) {
  Impl& i = *impl_;
  i.require_between("a copy of the arrays");
  GroupCopy out;
  const auto append = [&](const std::string& kind, FlatArray what, int k) {
    const float* from = in_place ? i.towers[0]->mover().readable(what, k) : nullptr;
    if (from == nullptr) {
      HostBuffer& flat = out.flat.emplace_back(index().elements());
      for (auto& t : i.towers) t->mover().read(what, k, flat.data());
      from = flat.data();
    }
    const auto& variables = index().variables();
    for (std::size_t v = variables.size(); v-- > 0;)
      out.arrays.push_back({kind, variables[v].name, variables[v].shape,
                            std::span(from + variables[v].offset, variables[v].size)});
  };
  append("parameter", FlatArray::parameter, 0);
  const std::vector<std::string> names = optimizer().rule->state_names();
  for (std::size_t k = 0; k < names.size(); ++k)
    append(names[k], FlatArray::state, static_cast<int>(k));
  if (i.shared.plan.ema) append("ema", FlatArray::ema, 0);
  out.states = i.states();
  for (const GroupArray& a : out.states)
    out.arrays.push_back({a.kind, a.variable, a.shape, std::span(a.values)});
  return out;
}

void TowerGroupBase::set_arrays(const std::vector<GroupArray>& arrays) {
  Impl& i = *impl_;
  i.require_between("set_arrays()");
  const std::vector<std::string> names = optimizer().rule->state_names();
  struct Target {
    FlatArray what;
    int k;
    std::vector<float> flat;
  };
  std::map<std::string, Target> targets;
  const auto target = [&](const std::string& kind) -> Target& {
    if (const auto it = targets.find(kind); it != targets.end()) return it->second;
    const auto state = std::find(names.begin(), names.end(), kind);
    FlatArray what = FlatArray::state;
    int k = 0;
    if (kind == "parameter")
      what = FlatArray::parameter;
    else if (kind == "ema" && i.shared.plan.ema)
      what = FlatArray::ema;
    else if (state != names.end())
      k = static_cast<int>(state - names.begin());
    else
      throw CheckpointError(
          ErrorText{.what = "array '" + kind + "'",
                    .found = "no such state in rule " + optimizer().rule->name()});
    return targets.emplace(kind, Target{what, k, i.whole(what, k)}).first->second;
  };
  const std::vector<float> states = i.with_states(arrays);
  for (const GroupArray& a : arrays) {
    if (a.kind == kStateKind) continue;
    Target& t = target(a.kind);
    const int v = index().find(a.variable);
    if (v < 0)
      throw CheckpointError(ErrorText{.what = a.kind + " of '" + a.variable + "'",
                                      .found = "no such variable in the model"});
    const FlatVariable& f = index().variables()[static_cast<std::size_t>(v)];
    if (!(a.shape == f.shape) || a.values.size() != f.size)
      throw CheckpointError(ErrorText{.what = a.kind + " of '" + a.variable + "'",
                                      .found = "shape " + a.shape.text() + " with " +
                                               std::to_string(a.values.size()) + " values",
                                      .expected = f.shape.text()});
    std::copy(a.values.begin(), a.values.end(),
              t.flat.begin() + static_cast<std::ptrdiff_t>(f.offset));
  }
  // An average of parameters that are set from outside starts anew at their values.
  for (const GroupArray& a : arrays) {
    const bool given = std::any_of(arrays.begin(), arrays.end(), [&](const GroupArray& b) {
      return b.kind == "ema" && b.variable == a.variable;
    });
    if (!i.shared.plan.ema || a.kind != "parameter" || given) continue;
    const FlatVariable& f = index().variables()[static_cast<std::size_t>(index().find(a.variable))];
    std::copy(a.values.begin(), a.values.end(),
              target("ema").flat.begin() + static_cast<std::ptrdiff_t>(f.offset));
  }
  for (auto& [kind, t] : targets) i.set_whole(t.what, t.k, t.flat);  // only now: all or nothing
  for (auto& t : i.towers)
    if (!states.empty()) t->states()->write(states);
}

GroupClocks TowerGroupBase::clocks() const {
  const Impl& i = *impl_;
  i.require_between("clocks()");
  GroupClocks out{i.updates, i.attempts, i.rows, {}, i.noise.state()};
  const std::vector<float> steps = i.towers[0]->tables().read_steps();
  for (std::size_t v = steps.size(); v-- > 0;)
    out.steps.emplace_back(index().variables()[v].name, static_cast<std::int64_t>(steps[v]));
  return out;
}

void TowerGroupBase::set_clocks(const GroupClocks& clocks) {
  Impl& i = *impl_;
  i.require_between("set_clocks()");
  if (clocks.update < 0 || clocks.attempts < 0 || clocks.rows < 0)
    throw CheckpointError(ErrorText{.what = "clocks of a group",
                                    .found = "update " + std::to_string(clocks.update) +
                                             ", attempts " + std::to_string(clocks.attempts) +
                                             ", rows " + std::to_string(clocks.rows),
                                    .expected = "0 or more"});
  std::vector<float> steps = i.towers[0]->tables().read_steps();
  for (const auto& [name, count] : clocks.steps) {
    const int v = index().find(name);
    if (v < 0)
      throw CheckpointError(ErrorText{.what = "step count of '" + name + "'",
                                      .found = "no such variable in the model"});
    steps[static_cast<std::size_t>(v)] = static_cast<float>(count);
  }
  if (!clocks.statistics.empty()) i.noise.restore(clocks.statistics);
  for (auto& t : i.towers) t->tables().write_steps(steps);
  i.updates = clocks.update;
  i.attempts = clocks.attempts;
  i.rows = clocks.rows;
}

std::string TowerGroupBase::parameter_hash() {
  impl_->require_between("parameter_hash()");
  Checksum sum;
  std::vector<GroupArray> arrays = impl_->cut("parameter", impl_->whole(FlatArray::parameter, 0));
  for (GroupArray& a : impl_->states()) arrays.push_back(std::move(a));
  for (const GroupArray& a : arrays) {
    const std::string head = a.variable + a.shape.text();
    sum.update(std::as_bytes(std::span(head)));
    sum.update(std::as_bytes(std::span(a.values)));
  }
  return sum.hex();
}

}  // namespace belfry
