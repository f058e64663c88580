// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace belfry {

// What linear and conv2d apply to their result. gelu is the tanh form.
enum class Activation : std::uint8_t { none, relu, tanh, sigmoid, gelu };

std::string_view name_of(Activation activation) noexcept;

// "relu" -> Activation::relu. Throws ConfigError with the nearest name.
Activation parse_activation(const std::string& name);

}  // namespace belfry
