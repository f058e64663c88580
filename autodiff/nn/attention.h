// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "belfry/autodiff/nn/key_values.h"
#include "belfry/autodiff/nn/linear.h"

namespace belfry {

// Self-attention of x [rows, positions, width]: projections "qkv" [3 width, width], heads, and a
// projection "out" [width, width]. In training the probabilities have dropout, drawn by this
// module's path. Throws ConfigError unless heads divide the width and 0 <= dropout < 1.
class Attention : public Module {
 public:
  struct Options {
    bool causal = true;
    double dropout = 0;                        // of the probabilities
    std::optional<Init> start{}, out_start{};  // of the weights; biases then start at 0
  };
  Attention(Module& parent, const std::string& name, std::int64_t width, std::int64_t heads,
            const Options& options);
  Tensor operator()(const Tensor& x) const;
  // x goes on where `past` ends and is added to it: any number of first positions, then one at a
  // time. Throws GradientError for more, and unless the attention is causal.
  Tensor operator()(const Tensor& x, KeyValues& past) const;

 private:
  std::int64_t heads_;
  bool causal_;
  double dropout_;
  std::uint64_t hash_;
  Linear qkv_, out_;
};

}  // namespace belfry
