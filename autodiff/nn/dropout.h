// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/module.h"

namespace belfry {

// Zeroes elements with probability p in training; the mask depends on this module's path. Throws
// ConfigError unless 0 <= p < 1.
class Dropout : public Module {
 public:
  Dropout(Module& parent, const std::string& name, double p);
  Tensor operator()(const Tensor& x) const;

 private:
  double p_;
  std::uint64_t hash_;
};

}  // namespace belfry
