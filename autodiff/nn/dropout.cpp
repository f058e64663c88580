// SPDX-License-Identifier: MIT
#include "belfry/autodiff/nn/dropout.h"

#include "belfry/autodiff/ops/random/dropout.h"
#include "belfry/core/error.h"
#include "belfry/core/philox.h"

namespace belfry {

Dropout::Dropout(Module& parent, const std::string& name, double p)
    : Module(parent, name), p_(p), hash_(name_hash(path())) {
  if (!(p >= 0 && p < 1))
    throw ConfigError(
        ErrorText{.what = "layer '" + path() + "': dropout probability is out of range",
                  .found = std::to_string(p),
                  .expected = "at least 0 and below 1"});
}

Tensor Dropout::operator()(const Tensor& x) const { return dropout(x, p_, hash_); }

}  // namespace belfry
