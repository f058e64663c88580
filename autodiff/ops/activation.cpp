// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/activation.h"

#include <array>
#include <vector>

#include "belfry/core/registry.h"

namespace belfry {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"none", "relu", "tanh", "sigmoid", "gelu"};

}  // namespace

std::string_view name_of(Activation activation) noexcept {
  return kNames[static_cast<std::size_t>(activation)];
}

Activation parse_activation(const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<Activation>(i);
  throw_unknown_name(name, "activation", std::vector<std::string>(kNames.begin(), kNames.end()));
}

}  // namespace belfry
