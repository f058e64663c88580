// SPDX-License-Identifier: MIT
#pragma once
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/tests/sim/shadow.h"

namespace belfry::sim::blas {

struct Layout {
  std::uint32_t type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t order = CUBLASLT_ORDER_COL, batch = 1;
  std::int64_t stride = 0;
  bool by_rows() const { return order == CUBLASLT_ORDER_ROW; }
  std::size_t index(std::size_t i, std::size_t j) const {
    const auto step = static_cast<std::size_t>(ld);
    return by_rows() ? i * step + j : j * step + i;
  }
};

struct Desc {
  std::int32_t compute, scale;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N, trans_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int32_t bias_type = -1, aux_type = -1;  // -1: as D
  void* aux = nullptr;
  std::int64_t aux_ld = 0, aux_stride = 0;
  bool has(unsigned bit) const { return (epilogue & bit) != 0; }
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // least alignments, in bytes
};

// One product D = epilogue(alpha * op(A) * op(B) + beta * C).
struct Problem {
  Desc desc;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  std::size_t m() const { return d.rows; }
  std::size_t n() const { return d.cols; }
  std::size_t k() const { return desc.trans_a == CUBLAS_OP_N ? a.cols : a.rows; }
  std::uint32_t bias_type() const {
    return desc.bias_type < 0 ? d.type : static_cast<std::uint32_t>(desc.bias_type);
  }
  std::uint32_t aux_type() const {
    return desc.aux_type < 0 ? d.type : static_cast<std::uint32_t>(desc.aux_type);
  }
};

constexpr unsigned kRelu = CUBLASLT_EPILOGUE_RELU, kBias = CUBLASLT_EPILOGUE_BIAS,
                   kGelu = CUBLASLT_EPILOGUE_GELU, kDrelu = 8, kDgelu = 64, kAux = 128, kBgrad = 16,
                   kBgradA = CUBLASLT_EPILOGUE_BGRADA, kBgradB = CUBLASLT_EPILOGUE_BGRADB;

std::size_t width(std::uint32_t type);
// What the library says to this, without its pointers.
cublasStatus_t check(const Problem& p);
std::vector<Range> ranges_of(const Problem& p);
void run(const Problem& p);

}  // namespace belfry::sim::blas
