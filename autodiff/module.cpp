// SPDX-License-Identifier: MIT
#include "belfry/autodiff/module.h"

#include <algorithm>

#include "belfry/core/error.h"

namespace belfry {

Module::Module(Module& parent, const std::string& name)
    : path_(parent.path_.empty() ? name : parent.path_ + "." + name) {
  parent.claim(name);
  parent.parts_.push_back({nullptr, this, nullptr});
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
    if (p.variable != nullptr) out.push_back(p.variable);
    if (p.module != nullptr)
      for (Variable* v : p.module->variables()) out.push_back(v);
  }
  return out;
}

std::vector<ModuleState*> Module::states() const {
  std::vector<ModuleState*> out;
  for (const Part& p : parts_) {
    if (p.state != nullptr) out.push_back(p.state);
    if (p.module != nullptr)
      for (ModuleState* s : p.module->states()) out.push_back(s);
  }
  return out;
}

void Module::add_state(ModuleState& state, const std::vector<std::string>& names) {
  for (const std::string& name : names) claim(name);
  parts_.push_back({nullptr, nullptr, &state});
}

}  // namespace belfry
