// SPDX-License-Identifier: MIT
#include "belfry/towers/group.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "belfry/allreduce/transport_choice.h"
#include "belfry/core/checksum.h"
#include "belfry/core/error.h"
#include "belfry/towers/group_internal.h"
#include "belfry/towers/memory_plan.h"

namespace belfry {

namespace {

// Whether the mode is `fast` and the transport has a sum of its own. Squares would need a second
// one.
bool transport_sums(const EngineShared& s) {
  const Optimizer& o = s.optimizer;
  if (o.reduce != ReduceMode::fast || s.context->towers() == 1 || s.options.make_transport ||
      choose_transport(*s.context, s.options.transport).name != "nccl")
    return false;
  const bool squares = o.needs_squares() || o.statistics != Statistics::none;
  if (squares)
    s.context->log(
        "reduce = \"fast\": squares are wanted, so gradients are added as in repeatable");
  return !squares;
}

void plan_flat(EngineShared& s, const std::vector<Variable*>& variables) {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  for (const Variable* v : variables) {
    names.push_back(v->name());
    shapes.push_back(v->shape());
  }
  FlatPlan& plan = s.plan;
  plan.index = FlatIndex(names, shapes);
  plan.buckets =
      plan_buckets(plan.index.blocks(), s.options.first_bucket_bytes, s.options.bucket_bytes);
  plan.towers = s.context->towers();
  for (int t = 0; t < plan.towers; ++t) s.devices.push_back(&s.context->device(t));
  plan.states = static_cast<int>(s.optimizer.rule->state_names().size());
  if (plan.states > kMaxStates)
    throw ConfigError(ErrorText{.what = "rule " + s.optimizer.rule->name() + " has too many states",
                                .found = std::to_string(plan.states),
                                .expected = "at most " + std::to_string(kMaxStates)});
  plan.leaves = leaf_plan(s.optimizer, plan.towers);
  if (transport_sums(s)) plan.leaves = plan_summed(plan.towers);
  const bool strict = plan.leaves.strict;
  const bool several = s.optimizer.accumulate > 1 || (strict && plan.leaves.shards > 1);
  plan.keep_squares =
      s.optimizer.statistics == Statistics::squares || s.optimizer.rule->wants_squares();
  plan.unit_squares =
      several && (s.optimizer.needs_squares() || s.optimizer.statistics != Statistics::none);
  plan.ema = s.optimizer.ema > 0;
  plan.layerwise = s.optimizer.rule->layerwise();
  s.lone = plan.towers == 1 && !several;
  s.bucket_variables.assign(plan.buckets.size(), 0);
  for (const FlatVariable& v : plan.index.variables()) {
    int first = 0, last = -1;
    for (std::size_t b = 0; b < plan.buckets.size() && v.size != 0; ++b) {
      const std::size_t begin = plan.buckets[b].first * kBlock,
                        end = begin + plan.buckets[b].blocks * kBlock;
      if (v.offset >= end || v.offset + v.size <= begin) continue;
      if (last < first) first = static_cast<int>(b);
      last = static_cast<int>(b);
      ++s.bucket_variables[b];
    }
    s.first_bucket.push_back(first);
    s.last_bucket.push_back(last);
  }
}

void plan_fold(EngineShared& s, const std::vector<Variable*>& variables) {
  const Optimizer& o = s.optimizer;
  for (const FlatVariable& f : s.plan.index.variables()) {
    const auto it = std::find_if(variables.begin(), variables.end(),
                                 [&](const Variable* v) { return v->name() == f.name; });
    s.trainable.push_back(!o.frozen_variable(f.name) && (*it)->trainable());
    s.fold_plan.push_back(
        {static_cast<float>(o.l2_of(f.name)), static_cast<float>(o.multiplier_of(f.name)), 1});
    s.decay.push_back(static_cast<float>(o.decay_of(f.name)));
    const FoldPlan& p = s.fold_plan.back();
    s.fold.shaped = s.fold.shaped || p.l2 != 0 || p.multiplier != 1;
  }
  s.fold.value_clip = o.clip == Clip::value ? static_cast<float>(o.clip_limit) : 0;
  s.fold.shaped = s.fold.shaped || o.clip == Clip::value;
  s.fold.divide = !s.lone;
  s.fold.squares = o.needs_squares() || o.statistics != Statistics::none;
  s.fold.statistics =
      o.guard || o.clip == Clip::global_norm || o.statistics != Statistics::none || o.l2 != 0;
  s.plan.statistics = s.fold.statistics;
  s.fused = !s.fold.statistics && !s.plan.layerwise && s.options.variables == Variables::shared;
  // Clipping in place would hide an infinite gradient from the error's search for it.
  s.plan.mean_in_place =
      s.plan.towers == 1 && !s.fold.shaped && s.options.variables == Variables::shared;
}

void place_variables(EngineShared& s) {
  const Variables possible = possible_variables(*s.context, s.options.variables);
  if (possible == std::exchange(s.options.variables, possible)) return;
  s.context->log(
      "variables = \"shared\" needs memory that all towers read: each device gets a copy");
}

std::unique_ptr<Transport> make_transport(const EngineShared& s) {
  const GroupOptions& o = s.options;
  const TransportChoice choice = choose_transport(*s.context, o.transport);
  const TransportOptions wish{.variables = o.variables,
                              .delay_seconds = o.exchange_delay,
                              .timeout_seconds = o.timeout_seconds,
                              .check_tags = o.check_tags,
                              .reason = choice.reason};
  if (o.make_transport) return o.make_transport(*s.context, wish);
  return builtin().table<TransportEntry>().at(choice.name, "transport").make(*s.context, wish);
}

}  // namespace

TowerGroupBase::Impl::Impl(Context& context, Optimizer optimizer, const Factory& make,
                           GroupOptions options)
    : life(context.life()), log(context.logger()) {
  optimizer.validate();
  shared.context = &context;
  shared.optimizer = std::move(optimizer);
  shared.options = std::move(options);
  place_variables(shared);
  if (shared.optimizer.statistics != Statistics::none)
    require_units_for_noise(shared.optimizer.units(context.towers()));
  std::vector<std::unique_ptr<Module>> modules = make_replicas(make, context.towers());
  const std::vector<Variable*> variables = modules[0]->variables();
  if (variables.empty()) throw ConfigError("the model has no variables");
  for (const Variable* v : variables)
    if (v->shape().size() > std::int64_t{1} << 40)
      throw ConfigError(
          ErrorText{.what = "variable " + v->name() + " is too large", .found = v->shape().text()});
  if (shared.optimizer.reduce == ReduceMode::strict && !context.threads_asked())
    for (int t = 0; t < context.towers(); ++t) context.device(t).set_threads(1);  // bits need it
  plan_flat(shared, variables);
  std::vector<std::string> names;
  for (const FlatVariable& v : shared.plan.index.variables()) names.push_back(v.name);
  warn_unmatched(shared.optimizer, names, "the model", log);
  plan_fold(shared, variables);
  transport = make_transport(shared);
  for (int t = 0; t < context.towers(); ++t)
    towers.push_back(std::make_unique<Tower>(
        shared, t, std::move(modules[static_cast<std::size_t>(t)]), *transport));
  background = std::make_unique<BackgroundTask>(context);
  context.logger().info("{}", transport->describe());
  log_states();
  initialize();
}

void TowerGroupBase::Impl::initialize() {
  std::vector<float> flat(shared.plan.index.elements(), 0.f);
  for (const Variable* v : towers[0]->module().variables()) {
    const FlatVariable& f =
        shared.plan.index.variables()[static_cast<std::size_t>(shared.plan.index.find(v->name()))];
    initial_values(f.name, v->init(), shared.context->seed(), v->shape().size(),
                   flat.data() + f.offset);
  }
  if (shared.plan.ema) set_whole(FlatArray::ema, 0, std::vector<float>(flat));
  set_whole(FlatArray::parameter, 0, flat);
}

void TowerGroupBase::Impl::throw_first(const std::vector<std::exception_ptr>& errors, bool fatal) {
  int first = -1;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    if (!errors[t]) continue;
    dead = dead || fatal;
    bool follow_up = false;
    try {
      std::rethrow_exception(errors[t]);
    } catch (const CommError&) {
      follow_up = true;
    } catch (...) {
    }
    if (first < 0 || !follow_up) first = static_cast<int>(t);
    if (!follow_up) break;
  }
  if (first >= 0)
    rethrow_located(errors[static_cast<std::size_t>(first)], 0, first, fatal ? attempts + 1 : -1);
}

void TowerGroupBase::Impl::log_placement(const std::vector<TowerResult>& results) const {
  for (std::size_t t = 0; t < results.size(); ++t)
    for (const std::string& line : results[t].placement)
      shared.context->logger().info("placement, tower {}: {}", t, line);
}

Batch TowerGroupBase::Impl::shard(const Batch& batch, int tower) const {
  const RowPart rows_here = shared.plan.leaves.rows_of(tower, batch.rows);
  return batch.slice(rows_here.first, rows_here.count);
}

void TowerGroupBase::Impl::complete(const Batch& batch) const {
  for (const std::string& name : batch.names())
    if (!batch[name].host_readable()) batch[name].device().synchronize();
}

Clock TowerGroupBase::Impl::clock(const Batch& batch) const {
  return {batch.rows_per_epoch, batch.full_rows > 0 ? batch.full_rows : batch.rows};
}

Report TowerGroupBase::Impl::run(const UpdateInput& in, const Batch& batch, const LossFn& fn) {
  const auto begin = std::chrono::steady_clock::now();
  if (in.kind != UpdateInput::Kind::apply) {
    require_function(fn);
    require_rows(batch, in.update);
  }
  std::vector<TowerResult> results(towers.size());
  std::vector<Batch> shards;  // cut before anybody waits: a bad batch changes nothing
  for (std::size_t t = 0; t < towers.size(); ++t)
    shards.push_back(shard(batch, static_cast<int>(t)));
  complete(batch);
  on_towers(true, [&](int t) {
    const auto k = static_cast<std::size_t>(t);
    towers[k]->update(in, shards[k], fn, results[k]);
  });
  if (std::exchange(shared.options.log_placement, false)) log_placement(results);  // once
  for (std::size_t t = 0; t < results.size(); ++t)
    if (!results[t].recorded.empty())
      shared.context->logger().info("tower {}: {}", t, results[t].recorded);
  if (results[0].refused) throw_refused(in, results);
  Report r = report(in, batch, results);
  skipped = r.skipped;
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

// A run that moves the clocks: a refused update only that of the learning rate, so that the
// schedule goes on.
Report TowerGroupBase::Impl::counted(const UpdateInput& in, const Batch& batch, const LossFn& fn) {
  check_replicas();
  try {
    const Report r = run(in, batch, fn);
    ++attempts;
    ++updates;
    warn_skipped(r);
    return r;
  } catch (const NumericError&) {
    ++attempts;
    throw;
  }
}

void TowerGroupBase::Impl::throw_refused(const UpdateInput& in,
                                         const std::vector<TowerResult>& results) const {
  for (std::size_t t = 0; t < results.size(); ++t)
    if (results[t].error) rethrow_located(results[t].error, 0, static_cast<int>(t), in.update);
  if (!results[0].refusal.empty()) {
    const std::vector<char>& present = results[0].decision.present;
    const bool some = std::find(present.begin(), present.end(), 1) != present.end();
    const char* fix = "set missing = \"zero\" to count a missing gradient as 0";
    if (!some)
      fix = in.kind == UpdateInput::Kind::apply
                ? "an averaged list needs a gradient of a variable that is not frozen"
                : "the loss must come from a variable that is not frozen, by ops alone: detach(), "
                  "view() and rows() cut the gradient";
    throw GradientError(ErrorText{.what = results[0].refusal,
                                  .fix = std::string("nothing was changed; ") + fix,
                                  .rank = 0,
                                  .update = in.update});
  }
  if (!(results[0].totals.weight > 0))
    throw NumericError(
        ErrorText{.what = "the loss weights of the update do not add up to a positive number",
                  .found = std::isnan(results[0].totals.weight) ? "NaN or a negative weight"
                                                                : "0: no valid target on any tower",
                  .fix = "nothing was changed; check the labels, and weights of your own",
                  .rank = 0,
                  .update = in.update});
  std::string where, variable;
  bool loss = false;
  for (std::size_t t = 0; t < results.size(); ++t) {
    loss = loss || results[t].bad_loss;
    if (results[t].bad_variable.empty()) continue;
    if (variable.empty()) variable = results[t].bad_variable;
    where += (where.empty() ? "" : ", ") + std::to_string(t);
  }
  const bool several = where.find(',') != std::string::npos;
  throw NumericError(ErrorText{
      .what = where.empty() ? (loss ? "the loss is not finite, though its gradient is"
                                    : "the averaged gradient is not finite, though each tower's is")
                            : "non-finite gradient on tower" + std::string(several ? "s " : " ") +
                                  where + ", first in variable " + variable,
      .found = !loss           ? "a finite loss"
               : where.empty() ? ""
                               : "a loss that is not finite",
      .fix = "nothing was changed; lower the learning rate or look at these rows",
      .rank = 0,
      .update = in.update});
}

Report TowerGroupBase::Impl::report(const UpdateInput& in, const Batch& batch,
                                    const std::vector<TowerResult>& results) {
  Report r;
  r.update = in.update;
  r.rows = batch.rows;
  r.epoch = batch.epoch;
  r.lr = in.lr;
  r.data_wait = batch.wait_seconds;
  const TowerResult& first = results[0];
  r.weight = static_cast<double>(first.totals.weight);
  r.mean_loss = static_cast<double>(first.totals.loss) + static_cast<double>(first.verdict.theta);
  r.norm = static_cast<double>(first.verdict.norm);
  r.clip = static_cast<double>(first.verdict.clip);
  r.units = static_cast<std::int64_t>(first.totals.units);
  r.stop = first.decision.stop;
  if (r.stop && in.kind != UpdateInput::Kind::average_only) shared.stop_asked = false;  // answered
  if (in.kind != UpdateInput::Kind::apply) {
    r.mean_norm2 = static_cast<double>(first.verdict.raw);
    r.unit_norm2 = static_cast<double>(first.verdict.units);
  }
  for (const int v : first.decision.skipped)
    r.skipped.push_back(shared.plan.index.variables()[static_cast<std::size_t>(v)].name);
  std::map<std::string, double> weights;
  for (const TowerResult& t : results) {
    for (const MetricValue& m : t.metrics) {
      r.metrics[m.name] += m.sum;
      weights[m.name] += m.weight;
    }
    r.forward_backward += t.forward_backward / static_cast<double>(results.size());
    r.exposed += t.exposed / static_cast<double>(results.size());
    r.update_seconds += t.update / static_cast<double>(results.size());
  }
  for (auto& [name, sum] : r.metrics) sum = weights[name] > 0 ? sum / weights[name] : 0;
  return r;
}

void TowerGroupBase::Impl::warn_skipped(const Report& r) const {
  for (const std::string& name : r.skipped)
    shared.context->logger().warn_once(
        "skipped:" + name, "variable {} has no gradient on any tower (update {}): it is skipped",
        name, r.update);
}

// Throws GradientError unless every pair fits a trainable variable; the flat squares.
std::vector<float> TowerGroupBase::Impl::checked_average(const AveragedGradients& averaged) const {
  const auto place = [&](const GradientPair& p, const char* what) -> const FlatVariable& {
    const int v = shared.plan.index.find(p.variable);
    const FlatVariable* f =
        v < 0 ? nullptr : &shared.plan.index.variables()[static_cast<std::size_t>(v)];
    const bool fits = f != nullptr && p.gradient.defined() && f->shape == p.gradient.shape() &&
                      p.gradient.dtype() == DType::f32;
    if (fits && shared.trainable[static_cast<std::size_t>(v)] != 0) return *f;
    throw GradientError(ErrorText{
        .what = std::string("apply: ") + what + " of '" + p.variable + "'",
        .found = p.gradient.defined()
                     ? p.gradient.shape().text() + " " + std::string(name_of(p.gradient.dtype()))
                     : "nothing",
        .expected = f == nullptr
                        ? "a variable of the model"
                        : (fits ? "a variable that is not frozen" : f->shape.text() + " f32")});
  };
  std::vector<float> squares(shared.plan.keep_squares ? shared.plan.index.elements() : 0, 0.f);
  for (const GradientPair& p : averaged.mean) {
    place(p, "gradient");
    p.gradient.device().synchronize();
    if (!shared.plan.keep_squares) continue;
    const auto q = std::find_if(averaged.square.begin(), averaged.square.end(),
                                [&](const GradientPair& s) { return s.variable == p.variable; });
    if (q == averaged.square.end())
      throw GradientError(ErrorText{.what = "apply: square of '" + p.variable + "'",
                                    .found = "nothing",
                                    .expected = "the mean of squares this optimizer needs",
                                    .fix = "average with include_square = true"});
    const FlatVariable& f = place(*q, "square");
    std::size_t at = f.offset;
    for (const double x : q->gradient.to_vector()) squares[at++] = static_cast<float>(x);
  }
  return squares;
}

std::vector<GroupArray> TowerGroupBase::Impl::of_last_run(const std::string& kind, FlatArray what) {
  std::vector<GroupArray> out = cut(kind, whole(what, 0));
  std::erase_if(out, [&](const GroupArray& a) {
    return std::find(skipped.begin(), skipped.end(), a.variable) != skipped.end();
  });
  return out;
}

std::vector<float> TowerGroupBase::Impl::whole(FlatArray what, int k) {
  std::vector<float> flat(shared.plan.index.elements(), 0.f);
  for (auto& t : towers) t->mover().read(what, k, flat.data());
  return flat;
}

void TowerGroupBase::Impl::set_whole(FlatArray what, int k, const std::vector<float>& flat) {
  for (auto& t : towers) t->mover().write(what, k, flat.data());
}

std::vector<GroupArray> TowerGroupBase::Impl::cut(const std::string& kind,
                                                  const std::vector<float>& flat) const {
  std::vector<GroupArray> out;
  const auto& variables = shared.plan.index.variables();
  for (std::size_t v = variables.size(); v-- > 0;) {
    const auto* begin = flat.data() + variables[v].offset;
    out.push_back(
        {kind, variables[v].name, variables[v].shape, {begin, begin + variables[v].size}});
  }
  return out;
}

TowerGroupBase::TowerGroupBase(Context& context, Optimizer optimizer, const Factory& make,
                               GroupOptions options)
    : impl_(std::make_unique<Impl>(context, std::move(optimizer), make, std::move(options))) {}

// Without its context nothing can be given back: memory is left where it is.
TowerGroupBase::~TowerGroupBase() {
  if (!impl_->life.expired()) return;
  impl_->log.error(
      "a tower group outlived its Context: its memory is lost; declare the Context before it");
  static std::atomic<Impl*> lost{nullptr};  // leak checkers find it here
  Impl* const impl = impl_.release();
  impl->lost_before = lost.exchange(impl);
}

Report TowerGroupBase::step(const Batch& batch, const LossFn& fn) {
  Impl& i = *impl_;
  i.require_context();
  i.background->check();
  UpdateInput in;
  in.update = i.attempts + 1;
  in.rows = batch.rows;
  in.lr = i.shared.optimizer.lr.at(i.attempts, i.clock(batch));
  const Report r = i.counted(in, batch, fn);
  i.rows += batch.rows;
  if (i.shared.optimizer.statistics != Statistics::none)
    i.noise.observe(r.mean_norm2, r.unit_norm2, r.units, r.weight);
  return r;
}

Report TowerGroupBase::apply(const AveragedGradients& averaged) {
  Impl& i = *impl_;
  const std::vector<float> squares = i.checked_average(averaged);
  UpdateInput in;
  in.update = i.attempts + 1;
  in.lr = i.shared.optimizer.lr.at(i.attempts, {});
  in.kind = UpdateInput::Kind::apply;
  in.averaged = &averaged;
  in.squares = &squares;
  return i.counted(in, Batch(), {});
}

std::vector<GroupArray> TowerGroupBase::averaged(const Batch& batch, const LossFn& fn) {
  UpdateInput in;
  in.update = impl_->attempts + 1;
  in.rows = batch.rows;
  in.kind = UpdateInput::Kind::average_only;
  impl_->run(in, batch, fn);
  return impl_->of_last_run("mean", FlatArray::mean);
}

std::vector<GroupArray> TowerGroupBase::squares() {
  if (!impl_->shared.plan.keep_squares)
    throw ConfigError(ErrorText{.what = "mean of squares",
                                .found = "statistics without squares",
                                .fix = "set statistics = \"squares\""});
  return impl_->of_last_run("square", FlatArray::square);
}

TowerGradients TowerGroupBase::gradients(const Batch& batch, const LossFn& fn) {
  Impl& i = *impl_;
  const std::size_t n = i.towers.size();
  TowerGradients out;
  out.towers.resize(n);
  out.weights.resize(n);
  out.losses.resize(n);
  require_function(fn);
  require_rows(batch, i.attempts + 1);
  i.complete(batch);
  i.on_towers(false, [&](int t) {
    const auto k = static_cast<std::size_t>(t);
    out.towers[k] = i.towers[k]->gradients(i.attempts + 1, i.shard(batch, t), fn, out.weights[k],
                                           out.losses[k]);
  });
  return out;
}

}  // namespace belfry
