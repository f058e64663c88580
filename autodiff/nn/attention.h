// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/autodiff/nn/linear.h"

namespace belfry {

// Self-attention of x [rows, positions, width]: projections "qkv" [3 width, width], heads, and a
// projection "out" [width, width]. Throws ConfigError unless heads divide the width.
class Attention : public Module {
 public:
  struct Options {
    bool causal = true;
    std::optional<Init> start{}, out_start{};  // of the weights; biases then start at 0
  };
  Attention(Module& parent, const std::string& name, std::int64_t width, std::int64_t heads,
            const Options& options);
  Tensor operator()(const Tensor& x) const;

 private:
  std::int64_t heads_;
  bool causal_;
  Linear qkv_, out_;
};

}  // namespace belfry
