// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "belfry/autodiff/scope.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/core/registry.h"
#include "belfry/device/kernel.h"

namespace belfry {

// One sample input of a case: values are written in double and converted to the dtype under test.
struct SampleInput {
  Shape shape;
  std::vector<double> values;
  bool differentiable = true;  // false for labels and masks
  DType fixed = DType::f32;    // used when not differentiable: i32 labels
};

// One call of an op with its plain reference in double. Contract tests run it in f32 and f64 on
// every executor, check gradients numerically, and bench it.
struct OpCase {
  std::string label;  // "odd", "empty", "one element", "padded"
  std::vector<SampleInput> inputs;
  std::function<Tensor(std::span<const Tensor>)> run;
  std::function<std::vector<double>(std::span<const std::vector<double>>)> reference;
  double tolerance = 2e-6;  // f32, relative to the largest reference value (at least 1)
  bool smooth = true;       // false: sampled near a kink, no numerical gradient check
};

// A misuse and the words its GradientError must contain.
struct OpMisuse {
  std::string label;
  std::function<void(Device&)> run;
  std::vector<std::string> expected;
};

// Registry entry of an op.
struct OpEntry {
  std::string help;
  std::function<std::vector<OpCase>()> cases;
  std::function<std::vector<OpMisuse>()> misuses;
};

// `count` values spread over [-limit, limit], none of them 0 and hardly two equal: from Philox.
std::vector<double> sample_values(std::int64_t count, double limit = 1.0, std::uint64_t seed = 1);
SampleInput sample(const Shape& shape, double limit = 1.0, std::uint64_t seed = 1);
SampleInput sample_labels(std::int64_t rows, std::int64_t classes);

[[noreturn]] void throw_not_float(const char* op, const Tensor& t);

// Calls f(float{}) or f(double{}) by dtype; throws GradientError naming op and dtype otherwise.
template <class F>
decltype(auto) with_float(const char* op, const Tensor& t, F&& f) {
  if (t.dtype() == DType::f32) return f(float{});
  if (t.dtype() != DType::f64) throw_not_float(op, t);
  return f(double{});
}

// Argument checks with op, found and expected in the GradientError.
void require_same(const char* op, const Tensor& a, const Tensor& b);  // shape, dtype, device
void require_rank(const char* op, const Tensor& t, int rank, const char* name);
[[noreturn]] void throw_op(const char* op, const std::string& what, const std::string& found,
                           const std::string& expected);

// The stream ops on this tensor run on.
inline Stream& stream_of(const Tensor& t) { return t.device().main(); }

}  // namespace belfry
