// SPDX-License-Identifier: MIT
#include "belfry/autodiff/module.h"

#include <algorithm>
#include <utility>

#include "belfry/autodiff/state.h"
#include "belfry/core/error.h"

namespace belfry {

Module::Module(Module& parent, const std::string& name)
    : path_(parent.path_.empty() ? name : parent.path_ + "." + name) {
  parent.claim(name);
  parent.keep_part({nullptr, this, nullptr, name}, parent_);
}

Module::~Module() {
  for (const Part& p : parts_) {
    if (p.variable != nullptr) p.variable->parent_ = nullptr;
    if (p.module != nullptr) p.module->parent_ = nullptr;
    if (p.state != nullptr) p.state->parent_ = nullptr;
  }
  if (parent_ != nullptr) parent_->part_is_gone(this);
}

void Module::adopt(Module& root) { keep_part({nullptr, &root, nullptr, ""}, root.parent_); }

void Module::keep_part(Part part, Module*& parent) {
  parts_.push_back(std::move(part));
  parent = this;
}

// Leaves its name behind, for require_part().
void Module::part_is_gone(const void* part) noexcept {
  for (Part& p : parts_)
    if (p.variable == part || p.module == part || p.state == part)
      p.variable = nullptr, p.module = nullptr, p.state = nullptr;
}

void Module::require_part(const Part& p) const {
  if (p.variable == nullptr && p.module == nullptr && p.state == nullptr)
    throw ConfigError(
        ErrorText{.what = (path_.empty() ? "the model" : "module '" + path_ + "'") + " lost a part",
                  .found = "'" + p.name + "' was destroyed before it",
                  .expected = "parts that live as long as their module",
                  .fix = "keep it as a member, not as a local variable"});
}

void throw_no_item(const Module& list, std::size_t item, std::size_t size) {
  throw ConfigError(ErrorText{.what = "item of module list '" + list.path() + "'",
                              .found = std::to_string(item),
                              .expected = "below its size, " + std::to_string(size)});
}

void Module::claim(const std::string& name) {
  const std::string where = path_.empty() ? "the model" : "module '" + path_ + "'";
  if (name.empty() || name.find('.') != std::string::npos)
    throw ConfigError(ErrorText{.what = "name of a part of " + where,
                                .found = "'" + name + "'",
                                .expected = "a non-empty name without '.'"});
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    throw ConfigError(ErrorText{.what = where + " has two parts with one name",
                                .found = "'" + name + "' twice",
                                .expected = "different names"});
  names_.push_back(name);
}

std::vector<Variable*> Module::variables() const {
  std::vector<Variable*> out;
  for (const Part& p : parts_) {
    require_part(p);
    if (p.variable != nullptr) out.push_back(p.variable);
    if (p.module != nullptr)
      for (Variable* v : p.module->variables()) out.push_back(v);
  }
  return out;
}

std::vector<ModuleState*> Module::states() const {
  std::vector<ModuleState*> out;
  for (const Part& p : parts_) {
    require_part(p);
    if (p.state != nullptr) out.push_back(p.state);
    if (p.module != nullptr)
      for (ModuleState* s : p.module->states()) out.push_back(s);
  }
  return out;
}

void Module::add_state(ModuleState& state, const std::vector<std::string>& names) {
  for (const std::string& name : names) claim(name);
  keep_part({nullptr, nullptr, &state, names[0]}, state.parent_);
}

}  // namespace belfry
