// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/embedding.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/sequence/embedding.h"

namespace belfry {

Embedding::Embedding(Module& parent, const std::string& name, std::int64_t count,
                     std::int64_t width, Init start)
    : Module(parent, name),
      weight_(*this, "weight", {positive(path(), "count", count), positive(path(), "width", width)},
              start) {}

Tensor Embedding::operator()(const Tensor& indices) const { return embedding(indices, weight_); }

}  // namespace belfry
