// SPDX-License-Identifier: MIT
#include "belfry/autodiff/layers/keys_internal.h"

namespace belfry {

std::int64_t windows(const Shape& image, int axis, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  const std::int64_t side = image[axis] + 2 * padding;
  if (side < kernel) {
    const std::string least = std::to_string(kernel - 2 * padding);
    throw_layer_input("its kernel of " + std::to_string(kernel) + " does not fit the image", image,
                      "at least " + least + " x " + least + " pixels");
  }
  return (side - kernel) / stride + 1;
}

void require_image(const Shape& row) {
  if (row.rank() != 3)
    throw_layer_input(
        "it takes images", row, "[rows, columns, channels]",
        row.rank() == 1 ? "put it before \"flatten\", or give the data a 'shape'" : "");
}

}  // namespace belfry
