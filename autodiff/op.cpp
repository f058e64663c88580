// SPDX-License-Identifier: MIT
#include "belfry/autodiff/op.h"

#include "belfry/core/error.h"
#include "belfry/core/philox.h"

namespace belfry {

std::vector<double> sample_values(std::int64_t count, double limit, std::uint64_t seed) {
  const Philox philox = philox_key(seed, Purpose::test);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto w = philox(static_cast<std::uint32_t>(i), 0, 0, 0);
    // 24 bits, odd: never 0, and exact in f32
    const double u = static_cast<double>((w.v[0] >> 8) | 1u) * 0x1p-24;
    out.push_back(static_cast<double>(static_cast<float>(((w.v[1] & 1u) != 0 ? u : -u) * limit)));
  }
  return out;
}

SampleInput sample(const Shape& shape, double limit, std::uint64_t seed) {
  return {shape, sample_values(shape.size(), limit, seed)};
}

SampleInput sample_labels(std::int64_t rows, std::int64_t classes) {
  SampleInput s{Shape{rows}, {}, false, DType::i32};
  for (std::int64_t i = 0; i < rows; ++i)
    s.values.push_back(static_cast<double>((i * 7 + 3) % classes));
  return s;
}

void throw_op(const char* op, const std::string& what, const std::string& found,
              const std::string& expected) {
  throw GradientError(
      ErrorText{.what = std::string(op) + ": " + what, .found = found, .expected = expected});
}

void throw_not_float(const char* op, const Tensor& t) {
  throw_op(op, "type", std::string(name_of(t.dtype())), "f32 or f64");
}

void require_same(const char* op, const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()))
    throw_op(op, "shapes", a.shape().text() + " and " + b.shape().text(), "equal shapes");
  if (a.dtype() != b.dtype())
    throw_op(op, "types",
             std::string(name_of(a.dtype())) + " and " + std::string(name_of(b.dtype())),
             "equal types");
  if (a.device().id() != b.device().id())
    throw_op(op, "devices", name_of(a.device().id()) + " and " + name_of(b.device().id()),
             "one device");
}

void require_rank(const char* op, const Tensor& t, int rank, const char* name) {
  if (t.shape().rank() != rank)
    throw_op(op, name, "shape " + t.shape().text(), std::to_string(rank) + " axes");
}

}  // namespace belfry
