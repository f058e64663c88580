// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/matrix/matmul.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/matrix/gemm_internal.h"

namespace belfry {
namespace {

void check(const Tensor& a, const Tensor& b) {
  require_float("matmul", a);
  require_like("matmul", a, b, "second operand");
  const int rank = a.shape().rank();
  if (rank != 2 && rank != 3)
    throw_op("matmul", "first operand has the wrong rank", a.shape().text(), "2 or 3 extents");
  require_rank("matmul", b, rank, "second operand");
  if (a.shape()[-1] != b.shape()[-2] || (rank == 3 && a.shape()[0] != b.shape()[0]))
    throw_op("matmul", "shapes do not fit", a.shape().text() + " and " + b.shape().text(),
             "[batch, m, k] and [batch, k, n]");
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a, b);
  const std::int64_t batch = a.shape().rank() == 3 ? a.shape()[0] : 1;
  const std::int64_t m = a.shape()[-2], k = a.shape()[-1], n = b.shape()[-1];
  Tensor c = Tensor::empty(a.shape().with(-1, n), a.dtype(), a.device());
  gemm("matmul", {.batch = batch, .m = m, .n = n, .k = k}, a, b, {}, c);
  const auto backward = [batch, m, n, k, a = a.detach(), b = b.detach()](Backward& g) {
    if (g.wants(0))
      gemm("matmul", {.batch = batch, .m = m, .n = k, .k = n, .transpose_b = 1}, g.grad(), b, {},
           g.into(0));
    if (g.wants(1))
      gemm("matmul", {.batch = batch, .m = k, .n = n, .k = m, .transpose_a = 1}, a, g.grad(), {},
           g.into(1));
  };
  return recorded("matmul", std::move(c), backward, a, b);
}

namespace {

OpCase matmul_case(const char* label, const Shape& a, const Shape& b) {
  OpCase c;
  c.label = label;
  c.inputs = {sample(a), sample(b, 1.0, 2)};
  c.run = [](std::span<const Tensor> t) { return matmul(t[0], t[1]); };
  const std::int64_t batch = a.rank() == 3 ? a[0] : 1, m = a[-2], k = a[-1], n = b[-1];
  c.reference = [=](std::span<const std::vector<double>> v) {
    std::vector<double> y;
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::vector<double> x(v[0].begin() + i * m * k, v[0].begin() + (i + 1) * m * k);
      const std::vector<double> z(v[1].begin() + i * k * n, v[1].begin() + (i + 1) * k * n);
      const std::vector<double> part = plain_matmul(x, z, m, n, k, false);
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  };
  return c;
}

}  // namespace

void register_op_matmul(Registry& registry) {
  OpEntry entry;
  entry.help = "matrix product, batched over a leading axis";
  entry.cases = [] {
    return std::vector<OpCase>{
        matmul_case("normal", {16, 32}, {32, 8}),
        matmul_case("odd", {5, 7}, {7, 3}),
        matmul_case("batched", {3, 5, 7}, {3, 7, 2}),
        matmul_case("one element", {1, 1}, {1, 1}),
        matmul_case("row by column", {1, 9}, {9, 1}),
        matmul_case("empty", {0, 7}, {7, 3}),
        matmul_case("empty batch", {0, 2, 3}, {0, 3, 2}),
        matmul_case("no terms", {2, 0}, {0, 3}),
    };
  };
  entry.misuses = [] {
    const auto call = [](const Shape& a, const Shape& b, DType type = DType::f32) {
      return [=](Device& d) { matmul(Tensor::zeros(a, DType::f32, d), Tensor::zeros(b, type, d)); };
    };
    return std::vector<OpMisuse>{
        {"inner", call({2, 3}, {4, 5}), {"matmul", "[2, 3]", "[4, 5]"}},
        {"batch", call({2, 3, 4}, {3, 4, 5}), {"matmul", "[2, 3, 4]", "[3, 4, 5]"}},
        {"ranks", call({2, 3, 4}, {4, 5}), {"matmul", "second operand", "[4, 5]"}},
        {"vector", call({3}, {3}), {"matmul", "first operand", "[3]"}},
        {"types", call({2, 3}, {3, 2}, DType::f64), {"matmul", "f64", "f32"}},
    };
  };
  registry.table<OpEntry>().add("matmul", std::move(entry));
}

}  // namespace belfry
