// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/module.h"

namespace belfry {

// Rows of a table by index: i32 [...] to [..., width]. Variable "weight" [count, width], starting
// normal with deviation 1 unless said otherwise, as PyTorch's. A model may use weight() elsewhere
// too, as the matrix of its head: the gradients of both uses are added.
class Embedding : public Module {
 public:
  Embedding(Module& parent, const std::string& name, std::int64_t count, std::int64_t width,
            Init start = Init::normal(1));
  Tensor operator()(const Tensor& indices) const;
  const Variable& weight() const noexcept { return weight_; }

 private:
  Variable weight_;
};

}  // namespace belfry
