// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/ops/activation.h"

namespace belfry {

inline void declare_activation(Schema& schema, std::string& activation) {
  schema.key("activation", activation,
             {.choices = {"none", "relu", "tanh", "sigmoid", "gelu"}, .help = "of the result"});
}

// The extent of an image side after windows of `kernel`. Throws ConfigError where none fits.
std::int64_t windows(const Shape& image, int axis, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding);

// Throws ConfigError unless `row` is an image.
void require_image(const Shape& row);

}  // namespace belfry
