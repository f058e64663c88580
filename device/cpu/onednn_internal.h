// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "belfry/device/library_shapes.h"

namespace belfry {

// oneDNN for one device: its engine, stream and primitives, made on first use and kept. A hit
// costs a hash lookup. Lives in a device slot and is called by the thread that runs the device's
// stream: a primitive built with another OpenMP thread count runs up to 3 times slower. The lanes
// of a loop have an engine and primitives each, for one thread. Every call throws DeviceError when
// oneDNN fails. The convolutions return false, having done nothing, when oneDNN has only its
// reference loops (1000 times slower) for a shape.
class OneDnn {
 public:
  OneDnn();
  ~OneDnn();
  OneDnn(const OneDnn&) = delete;
  OneDnn& operator=(const OneDnn&) = delete;

  // From now on what is multiplied is rounded to bf16 first, where oneDNN has fast code for that;
  // sums, biases and results stay f32. Before the first call.
  void narrow();

  void matmul(const MatmulShape& s, const float* a, const float* b, const float* bias, float* c);
  bool conv_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                    float* y);
  bool conv_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx);
  bool conv_backward_weights(const ConvShape& s, const float* x, const float* dy, float* dweight);

  // "conv_forward 64x28x28x1 ... brgconv:avx512_core", one line a primitive; "none" where a shape
  // fell back to plain loops.
  std::vector<std::string> implementations() const;
  std::size_t misses() const noexcept;  // primitives built so far

 private:
  struct Impl;
  Impl& here();  // of this thread's lane
  bool narrows_ = false;
  std::unique_ptr<Impl> impl_;
  std::vector<std::unique_ptr<Impl>> lanes_;
};

}  // namespace belfry
