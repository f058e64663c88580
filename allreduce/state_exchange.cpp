// SPDX-License-Identifier: MIT
#include "belfry/allreduce/state_exchange.h"

#include <algorithm>
#include <utility>

#include "belfry/allreduce/device_table.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr std::uint32_t kStates = 16;  // the tag's kind: behind those of gradients

Tensor term_memory(std::size_t n, Device& device) {
  return Tensor::zeros(Shape{static_cast<std::int64_t>(n * sizeof(StateTerm))}, DType::u8, device);
}

template <class T>
T* as(const Tensor& t) {
  return static_cast<T*>(t.raw());
}

void require_one_name(const std::vector<StateArray>& arrays, const std::string& name) {
  if (std::any_of(arrays.begin(), arrays.end(), [&](const auto& a) { return a.name == name; }))
    throw ConfigError("two states are called '" + name + "'");
}

}  // namespace

StateExchange::StateExchange(std::vector<ModuleState*> states, const LeafPlan& leaves,
                             Device& device, Communicator& comm, Stream& collectives)
    : leaves_(leaves.summed ? plan_towers(leaves.towers) : leaves),
      device_(device),
      comm_(comm),
      collectives_(collectives),
      gathered_(device.event()) {
  for (const ModuleState* s : states) cells_ += static_cast<std::size_t>(s->shape().size());
  std::vector<StateRule> rules;
  std::vector<float> values(2 * cells_, 0.f);
  for (const ModuleState* s : states) {
    const std::size_t at = rules.size(), n = static_cast<std::size_t>(s->shape().size());
    rules.insert(rules.end(), n, {s->kind(), static_cast<float>(s->momentum())});
    for (int part = 0; part < (s->kind() == StateKind::pooled ? 2 : 1); ++part) {
      const std::string& name = part == 0 ? s->name() : s->second_name();
      require_one_name(arrays_, name);
      arrays_.push_back({name, s->shape(), at + (part == 0 ? 0 : cells_)});
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(arrays_.back().at), n,
                  static_cast<float>(s->start(part)));
    }
  }
  std::vector<int> places;
  for (const LeafSource& s : leaves_.sources) places.push_back(s.tower * leaves_.partials + s.slot);
  const Settled settled(device_.main());
  rules_ = device_table(rules, device_);
  places_ = device_table(places, device_);
  merges_ = device_table(leaves_.merges, device_);
  values_ = Tensor::empty(Shape{static_cast<std::int64_t>(values.size())}, DType::f32, device_);
  device_.main().copy(values_.raw(), values.data(), values_.bytes());
  unit_ = term_memory(cells_, device_);
  slots_ = term_memory(cells_ * static_cast<std::size_t>(leaves_.slots), device_);
  if (comm_.size() > 1)
    all_ = term_memory(cells_ * static_cast<std::size_t>(leaves_.partials * comm_.size()), device_);
  else
    all_ = slots_;
  std::size_t at = 0;
  for (ModuleState* s : states) {
    const auto part = [&](std::size_t first) {
      return Tensor::wrap(values_.data<float>() + first, s->shape(), DType::f32, device_);
    };
    s->bind(part(at), part(cells_ + at), as<StateTerm>(unit_) + at);
    at += static_cast<std::size_t>(s->shape().size());
  }
  device_.synchronize();
}

double StateExchange::bytes_for(double cells, const LeafPlan& plan) {
  const LeafPlan leaves = plan.summed ? plan_towers(plan.towers) : plan;
  const int terms = 1 + leaves.slots + (leaves.towers > 1 ? leaves.partials * leaves.towers : 0);
  return cells *
         (2 * sizeof(float) + sizeof(StateRule) + terms * static_cast<double>(sizeof(StateTerm)));
}

StateTerm* StateExchange::terms(int slot) const {
  return as<StateTerm>(slots_) + static_cast<std::size_t>(slot) * cells_;
}

void StateExchange::start() {
  await();
  device_.main().fill(slots_.raw(), 0, slots_.bytes());
}

void StateExchange::start_unit() { device_.main().fill(unit_.raw(), 0, unit_.bytes()); }

void StateExchange::end_unit(int slot, bool first, const float* weight) {
  launch_elements(
      device_.main(), cells_,
      AddUnitStates{as<StateRule>(rules_), as<StateTerm>(unit_), weight, terms(slot), first});
}

void StateExchange::clear(int slot) {
  device_.main().fill(terms(slot), 0, cells_ * sizeof(StateTerm));
}

void StateExchange::merge(int left) {
  launch_elements(device_.main(), cells_,
                  MergeStates{as<StateRule>(rules_), terms(left), terms(left + 1)});
}

void StateExchange::exchange(std::int64_t update) {
  if (comm_.size() == 1) return;
  const std::size_t bytes = static_cast<std::size_t>(leaves_.partials) * cells_ * sizeof(StateTerm);
  comm_.all_gather(collectives_, slots_.raw(), all_.raw(), bytes, {kStates, -1, update});
  if (&collectives_ == &device_.main()) return;
  collectives_.record(*gathered_);
  under_way_ = true;
}

// Not before somebody needs it: where statistics are gathered, the wait for them covers it.
void StateExchange::await() {
  if (std::exchange(under_way_, false)) device_.main().wait(*gathered_);
}

void StateExchange::apply(const Verdict* verdict) {
  await();
  launch_elements(device_.main(), cells_,
                  UpdateStates{as<StateRule>(rules_), as<StateTerm>(all_), as<int>(places_),
                               as<unsigned char>(merges_), static_cast<int>(leaves_.sources.size()),
                               leaves_.partials * comm_.size(), cells_, verdict,
                               values_.data<float>(), values_.data<float>() + cells_});
}

std::vector<float> StateExchange::read() {
  std::vector<float> out(2 * cells_);
  device_.main().fetch(out.data(), values_.raw(), values_.bytes());
  return out;
}

void StateExchange::write(const std::vector<float>& values) {
  const Settled settled(device_.main());
  device_.main().copy(values_.raw(), values.data(), values_.bytes());
  device_.synchronize();
}

}  // namespace belfry
