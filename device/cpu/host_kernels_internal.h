// SPDX-License-Identifier: MIT
#pragma once
#include <typeinfo>

#include "belfry/device/kernel.h"

namespace belfry {

// The kernels of one instruction set. Filled by units compiled for it, whose inline functions stay
// their own (cmake/instruction_sets.cmake); read by everybody afterwards.
class HostKernels {
 public:
  template <class F>
  void elements() {
    add(typeid(F).name(), F::name, host_elements<F>);
  }
  template <class F>
  void rows() {
    add(typeid(F).name(), F::name, host_rows<F>);
  }
  HostBody by_type(std::string_view type) const;
  HostBody by_name(std::string_view name) const;

 private:
  struct Entry {
    std::string_view type, name;
    HostBody body;
  };
  void add(const char* type, const char* name, HostBody body);
  std::vector<Entry> entries_;
};

// Generated: whether the build has kernels for a level, and what they are.
bool has_host_kernels(InstructionSet set);
void fill_host_kernels(InstructionSet set, HostKernels& kernels);

}  // namespace belfry
