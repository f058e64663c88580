// SPDX-License-Identifier: MIT
#include "belfry/autodiff/state.h"

#include <cmath>

#include "belfry/autodiff/module.h"
#include "belfry/autodiff/op.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

std::string full_name(const Module& parent, const std::string& name) {
  return parent.path().empty() ? name : parent.path() + "." + name;
}

}  // namespace

ModuleState::ModuleState(Module& parent, const std::string& name, const Shape& shape,
                         StateKind kind, double start)
    : names_{full_name(parent, name), ""}, shape_(shape), kind_(kind), start_(start) {
  if (kind == StateKind::pooled)
    throw ConfigError(ErrorText{.what = "state " + names_[0],
                                .found = "the kind pooled with one name",
                                .expected = "names of a mean and of a variance"});
  parent.add_state(*this, {name});
}

ModuleState::ModuleState(Module& parent, const std::string& mean, const std::string& variance,
                         const Shape& shape, double momentum)
    : names_{full_name(parent, mean), full_name(parent, variance)},
      shape_(shape),
      kind_(StateKind::pooled),
      momentum_(momentum) {
  if (!(momentum > 0 && momentum <= 1))
    throw ConfigError(ErrorText{.what = "momentum of state " + names_[0] + " is out of range",
                                .found = std::to_string(momentum),
                                .expected = "above 0, at most 1"});
  parent.add_state(*this, {mean, variance});
}

ModuleState::~ModuleState() {
  if (parent_ != nullptr) parent_->part_is_gone(this);
}

void ModuleState::bind(const Tensor& value, const Tensor& second, StateTerm* terms) {
  const auto check = [&](const Tensor& t, const std::string& name) {
    if (!(t.shape() == shape_))
      throw GradientError(ErrorText{.what = "state " + name,
                                    .found = "memory of shape " + t.shape().text(),
                                    .expected = shape_.text()});
  };
  check(value, names_[0]);
  if (kind_ == StateKind::pooled) check(second, names_[1]);
  values_[0] = value;
  values_[1] = second;
  terms_ = terms;
}

const Tensor& ModuleState::value() const {
  if (!values_[0].defined())
    throw GradientError(
        ErrorText{.what = "state " + names_[0] + " has no memory yet",
                  .fix = "use the module through a TowerGroup, which binds its states"});
  return values_[0];
}

const Tensor& ModuleState::variance() const {
  value();
  if (kind_ != StateKind::pooled)
    throw GradientError(
        ErrorText{.what = "state " + names_[0] + " has no variance", .expected = "a pooled state"});
  return values_[1];
}

void ModuleState::add(const Tensor& value, const float* second, float weight) const {
  if (terms_ == nullptr) return;
  launch_elements(stream_of(value), static_cast<std::size_t>(shape_.size()),
                  ContributeState{kind_, value.data<float>(), second, weight, terms_});
}

void ModuleState::contribute(const Tensor& value) const {
  if (kind_ == StateKind::pooled || !(value.shape() == shape_))
    throw_op("contribute", "to state " + names_[0], value.shape().text(),
             kind_ == StateKind::pooled ? "moments and their count" : shape_.text());
  const Scope* scope = Scope::current();
  const std::int64_t rows = scope == nullptr ? 1 : scope->options().rows;
  const bool weighted = kind_ == StateKind::mean && rows > 0;
  add(value, nullptr, weighted ? static_cast<float>(rows) : 1.f);
}

void ModuleState::contribute(const Tensor& moments, std::int64_t count) const {
  if (kind_ != StateKind::pooled || moments.size() != 2 * shape_.size() || count < 1)
    throw_op("contribute", "to state " + names_[0],
             moments.shape().text() + " of " + std::to_string(count) + " values",
             kind_ == StateKind::pooled ? "[2, shape] of at least 1 value" : shape_.text());
  add(moments, moments.data<float>() + shape_.size(), static_cast<float>(count));
}

}  // namespace belfry
