// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belfry/autodiff/tensor.h"
#include "belfry/device/library_shapes.h"

namespace belfry::bench {

// The matrix products and convolutions of one forward and backward pass, with the library calls
// the ops make and nothing between them. The first layer's input gets no gradient.
class Products {
 public:
  Products(const std::string& model, std::int64_t batch, Device& device);
  void run();                                       // puts them on the device's main stream
  double flops() const noexcept { return flops_; }  // 2 m n k a product; bias not counted
  double model_flops() const noexcept { return flops_ + attention_; }
  std::size_t count() const noexcept { return calls_.size(); }

 private:
  void linear(std::int64_t rows, std::int64_t in, std::int64_t out, bool first);
  void gpt(std::int64_t rows);
  void resnet20(std::int64_t n);
  void conv(ConvShape shape, bool first);
  float* memory(std::int64_t elements);
  template <class Call>
  void add(std::vector<std::function<void()>>& calls, Call call);

  Device& device_;
  std::vector<Tensor> memory_;
  std::vector<std::function<void()>> calls_, backward_;
  double flops_ = 0;
  double attention_ = 0;  // products of attention, which are no library calls; half where causal
};

}  // namespace belfry::bench
