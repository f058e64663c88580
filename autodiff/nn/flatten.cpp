// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/flatten.h"

#include "belfry/autodiff/ops/shape/reshape.h"

namespace belfry {

Tensor flatten(const Tensor& x) {
  std::int64_t rest = 1;  // not size / rows: rows may be 0
  for (int axis = 1; axis < x.shape().rank(); ++axis) rest *= x.shape()[axis];
  return reshape(x, {x.shape()[0], rest});
}

}  // namespace belfry
