// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/dropout.h"

#include "belfry/autodiff/nn/extents_internal.h"
#include "belfry/autodiff/ops/random/dropout.h"
#include "belfry/core/philox.h"

namespace belfry {

Dropout::Dropout(Module& parent, const std::string& name, double p)
    : Module(parent, name), p_(dropped_share(path(), p)), hash_(name_hash(path())) {}

Tensor Dropout::operator()(const Tensor& x) const { return dropout(x, p_, hash_); }

}  // namespace belfry
