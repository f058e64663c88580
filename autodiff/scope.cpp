// SPDX-License-Identifier: MIT
#include "belfry/autodiff/scope.h"

namespace belfry {
namespace {
thread_local Scope* current_scope = nullptr;
}

Scope::Scope(const Options& options) : options_(options), previous_(current_scope) {
  current_scope = this;
}
Scope::~Scope() { current_scope = previous_; }
Scope* Scope::current() noexcept { return current_scope; }
Tape* Scope::tape() noexcept {
  return current_scope == nullptr ? nullptr : current_scope->options_.tape;
}
std::uint32_t Scope::next_draw(std::uint64_t path) { return draws_[path]++; }

}  // namespace belfry
