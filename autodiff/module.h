// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belfry/autodiff/variable.h"

namespace belfry {

class ModuleState;

// A part of a model: owns variables and sub-modules as plain members, which register themselves in
// construction order. Pinned: neither copied nor moved. Constructors only declare; nothing is
// computed or allocated before a group binds the variables. Two children or variables of one name
// are a ConfigError.
class Module {
 public:
  Module() = default;                               // a root
  Module(Module& parent, const std::string& name);  // a named part of `parent`
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const noexcept { return path_; }  // "" for a root, "block1.conv" below
  std::vector<Variable*> variables() const;  // this module's and its children's, as constructed
  std::vector<ModuleState*> states() const;  // in the same order

 protected:
  // Lists the variables of another root as this module's own, under their names there.
  void adopt(Module& root) { parts_.push_back({nullptr, &root, nullptr}); }

 private:
  friend class Variable;
  friend class ModuleState;
  void add_state(ModuleState& state, const std::vector<std::string>& names);
  void claim(const std::string& name);
  std::string path_;
  std::vector<std::string> names_;
  struct Part {
    Variable* variable;
    Module* module;
    ModuleState* state;
  };
  std::vector<Part> parts_;
};

// A list of modules of one type named "0", "1", ...: ModuleList<Linear> layers{*this, "layers"};
template <class M>
class ModuleList : public Module {
 public:
  using Module::Module;
  template <class... Args>
  M& add(Args&&... args) {
    items_.push_back(
        std::make_unique<M>(*this, std::to_string(items_.size()), std::forward<Args>(args)...));
    return *items_.back();
  }
  std::size_t size() const noexcept { return items_.size(); }
  M& operator[](std::size_t i) { return *items_.at(i); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::vector<std::unique_ptr<M>> items_;
};

}  // namespace belfry
