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
// computed or allocated before a group binds the variables. ConfigError: two children or variables
// of one name; a model one of whose parts has been destroyed, as a local variable is.
class Module {
 public:
  Module() = default;                               // a root
  Module(Module& parent, const std::string& name);  // a named part of `parent`
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const noexcept { return path_; }  // "" for a root, "block1.conv" below
  std::vector<Variable*> variables() const;  // this module's and its children's, as constructed
  std::vector<ModuleState*> states() const;  // in the same order

 protected:
  // Lists the variables of another root as this module's own, under their names there.
  void adopt(Module& root);

 private:
  friend class Variable;
  friend class ModuleState;
  void add_state(ModuleState& state, const std::vector<std::string>& names);
  void claim(const std::string& name);
  struct Part {  // one of them; none: it is gone
    Variable* variable;
    Module* module;
    ModuleState* state;
    std::string name;
  };
  void keep_part(Part part, Module*& parent);  // names that hide no op in a module
  void part_is_gone(const void* part) noexcept;
  void require_part(const Part& part) const;
  std::string path_;
  Module* parent_ = nullptr;  // null for a root, and when it is gone
  std::vector<std::string> names_;
  std::vector<Part> parts_;
};

[[noreturn]] void throw_no_item(const Module& list, std::size_t item, std::size_t size);

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
  M& operator[](std::size_t i) {  // ConfigError where there is none
    if (i >= items_.size()) throw_no_item(*this, i, items_.size());
    return *items_[i];
  }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::vector<std::unique_ptr<M>> items_;
};

}  // namespace belfry
