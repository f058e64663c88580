// SPDX-License-Identifier: MIT
// What a product may be, what it touches, and what it computes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "belfry/device/half.h"
#include "belfry/tests/simcuda/cublaslt_state.h"

namespace belfry::sim::blas {
namespace {

float get(const void* p, std::uint32_t type, std::size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(p)[i];
  return static_cast<float>(static_cast<const BFloat16*>(p)[i]);
}

void put(void* p, std::uint32_t type, std::size_t i, float v) {
  if (type == CUDA_R_32F)
    static_cast<float*>(p)[i] = v;
  else
    static_cast<BFloat16*>(p)[i] = BFloat16(v);
}

// The tensor core takes 10 bits of the mantissa.
float tf32(float v) { return bits_float(float_bits(v) & ~0x1fffu); }

float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * x * x);
}

const void* offset(const void* p, std::size_t elements, std::uint32_t type) {
  return static_cast<const std::byte*>(p) + elements * width(type);
}
void* offset(void* p, std::size_t elements, std::uint32_t type) {
  return static_cast<std::byte*>(p) + elements * width(type);
}

// op(X) as rows x cols, stored by columns.
std::vector<float> packed(const Layout& l, const void* data, std::int32_t op, std::size_t rows,
                          std::size_t cols, bool truncate) {
  std::vector<float> out(rows * cols);
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t i = 0; i < rows; ++i) {
      const float v = get(data, l.type, op == CUBLAS_OP_N ? l.index(i, j) : l.index(j, i));
      out[j * rows + i] = truncate ? tf32(v) : v;
    }
  return out;
}

struct Batch {
  const Problem& p;
  std::size_t number;
  const void* at(const void* data, const Layout& l) const {
    return offset(data, number * static_cast<std::size_t>(l.stride), l.type);
  }
  void* d() const {
    return offset(p.d_data, number * static_cast<std::size_t>(p.d.stride), p.d.type);
  }
  void* bias() const {
    return offset(p.desc.bias, number * static_cast<std::size_t>(p.desc.bias_stride),
                  p.bias_type());
  }
};

// Reads or writes the auxiliary matrix of one element and gives the element's value.
float activated(const Problem& p, std::size_t i, std::size_t j, std::size_t batch, float v) {
  const Desc& d = p.desc;
  const std::size_t at =
      batch * static_cast<std::size_t>(d.aux_stride) + j * static_cast<std::size_t>(d.aux_ld) + i;
  auto* const bits = static_cast<std::uint8_t*>(d.aux);
  const auto bit = static_cast<std::uint8_t>(1u << at % 8);
  if (d.has(kDrelu)) return (bits[at / 8] & bit) != 0 ? v : 0;
  if (d.has(kDgelu)) return v * gelu_slope(get(d.aux, p.aux_type(), at));
  if (d.has(kAux) && d.has(kRelu))
    bits[at / 8] = static_cast<std::uint8_t>(v > 0 ? bits[at / 8] | bit : bits[at / 8] & ~bit);
  if (d.has(kAux) && d.has(kGelu)) put(d.aux, p.aux_type(), at, v);
  if (d.has(kRelu)) return v < 0 ? 0 : v;
  return d.has(kGelu) ? gelu(v) : v;
}

void run_batch(const Batch& batch) {
  const Problem& p = batch.p;
  const std::size_t m = p.m(), n = p.n(), k = p.k();
  const bool truncate = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a = packed(p.a, batch.at(p.a_data, p.a), p.desc.trans_a, m, k, truncate);
  const auto b = packed(p.b, batch.at(p.b_data, p.b), p.desc.trans_b, k, n, truncate);
  std::vector<float> column(m), sums(m, 0);
  for (std::size_t j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.0f);
    for (std::size_t q = 0; q < k; ++q) {
      const float factor = b[j * k + q];
      const float* const from = a.data() + q * m;
      for (std::size_t i = 0; i < m; ++i) column[i] += from[i] * factor;
    }
    for (std::size_t i = 0; i < m; ++i) {
      float v = p.alpha * column[i];
      if (p.beta != 0) v += p.beta * get(batch.at(p.c_data, p.c), p.c.type, p.c.index(i, j));
      if (p.desc.has(kBias)) v += get(batch.bias(), p.bias_type(), i);
      v = activated(p, i, j, batch.number, v);
      sums[i] += v;
      put(batch.d(), p.d.type, p.d.index(i, j), v);
    }
  }
  if (p.desc.has(kBgradA)) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::size_t q = 0; q < k; ++q)
      for (std::size_t i = 0; i < m; ++i) sums[i] += a[q * m + i];
  }
  if (p.desc.has(kBgradB)) {
    sums.assign(n, 0);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t q = 0; q < k; ++q) sums[j] += b[j * k + q];
  }
  if (p.desc.has(kBgrad | kBgradA | kBgradB))
    for (std::size_t i = 0; i < sums.size(); ++i) put(batch.bias(), p.bias_type(), i, sums[i]);
}

bool fits(const Layout& l) {
  const std::uint64_t least = l.by_rows() ? l.cols : l.rows;
  return l.rows > 0 && l.cols > 0 && l.ld >= static_cast<std::int64_t>(least) &&
         (l.order == CUBLASLT_ORDER_COL || l.by_rows());
}

void add_range(std::vector<Range>& out, const void* p, std::size_t bytes, bool write) {
  const auto lo = reinterpret_cast<std::uintptr_t>(p);
  if (bytes != 0) out.push_back({lo, lo + bytes, write});
}

// A matrix with gaps is its lines, unless there are very many.
void add_matrix(std::vector<Range>& out, const Layout& l, const void* data, bool write) {
  constexpr std::size_t kLines = 256;
  const std::size_t lines = l.by_rows() ? l.rows : l.cols, length = l.by_rows() ? l.cols : l.rows,
                    step = static_cast<std::size_t>(l.ld), w = width(l.type);
  for (int batch = 0; batch < l.batch; ++batch) {
    const void* const first =
        offset(data, static_cast<std::size_t>(batch) * static_cast<std::size_t>(l.stride), l.type);
    if (step == length || lines > kLines) {
      add_range(out, first, ((lines - 1) * step + length) * w, write);
      continue;
    }
    for (std::size_t j = 0; j < lines; ++j)
      add_range(out, offset(first, j * step, l.type), length * w, write);
  }
}

cublasStatus_t check_epilogue(const Problem& p) {
  constexpr unsigned kKnown[] = {1,
                                 kRelu,
                                 kBias,
                                 kRelu | kBias,
                                 kRelu | kAux,
                                 kRelu | kAux | kBias,
                                 kGelu,
                                 kGelu | kBias,
                                 kGelu | kAux,
                                 kGelu | kAux | kBias,
                                 kDrelu | kAux,
                                 kDrelu | kAux | kBgrad,
                                 kDgelu | kAux,
                                 kDgelu | kAux | kBgrad,
                                 kBgradA,
                                 kBgradB};
  const Desc& d = p.desc;
  if (std::find(std::begin(kKnown), std::end(kKnown), d.epilogue) == std::end(kKnown))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::uint32_t bias = p.bias_type(), aux = p.aux_type();
  if (width(bias) == 0 || width(aux) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.has(kBias | kBgrad | kBgradA | kBgradB) && d.bias == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!d.has(kAux)) return CUBLAS_STATUS_SUCCESS;
  const bool mask = d.has(kRelu | kDrelu);
  if (d.aux == nullptr || d.aux_ld < static_cast<std::int64_t>(p.m()))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d.aux_ld % (mask ? 128 : 8) != 0 || p.d.by_rows()) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::size_t width(std::uint32_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 0;
}

cublasStatus_t check(const Problem& p) {
  const Desc& d = p.desc;
  const bool floats = p.a.type == CUDA_R_32F;
  if (p.a.type != p.b.type || p.c.type != p.d.type || width(p.a.type) == 0 ||
      width(p.d.type) == 0 || (floats && p.d.type != CUDA_R_32F) || d.scale != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.compute != CUBLAS_COMPUTE_32F && d.compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
      (d.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || !floats))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.pointer_mode != CUBLASLT_POINTER_MODE_HOST || d.trans_c != CUBLAS_OP_N)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) {
    if (!fits(*l)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (l->batch != p.d.batch || l->batch < 1) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool plain_a = d.trans_a == CUBLAS_OP_N, plain_b = d.trans_b == CUBLAS_OP_N;
  const std::uint64_t m = plain_a ? p.a.rows : p.a.cols, k = plain_b ? p.b.rows : p.b.cols,
                      n = plain_b ? p.b.cols : p.b.rows;
  if (m != p.d.rows || n != p.d.cols || k != p.k() || p.c.rows != m || p.c.cols != n)
    return CUBLAS_STATUS_INVALID_VALUE;
  return check_epilogue(p);
}

std::vector<Range> ranges_of(const Problem& p) {
  std::vector<Range> out;
  add_matrix(out, p.a, p.a_data, false);
  add_matrix(out, p.b, p.b_data, false);
  if (p.beta != 0) add_matrix(out, p.c, p.c_data, false);
  add_matrix(out, p.d, p.d_data, true);
  const Desc& d = p.desc;
  const std::size_t length = d.has(kBgradB) ? p.n() : p.m();
  for (int batch = 0; batch < p.d.batch; ++batch) {
    if (d.has(kBias | kBgrad | kBgradA | kBgradB))
      add_range(
          out,
          offset(d.bias, static_cast<std::size_t>(batch) * static_cast<std::size_t>(d.bias_stride),
                 p.bias_type()),
          length * width(p.bias_type()), !d.has(kBias));
    if (!d.has(kAux)) continue;
    const std::size_t elements = (p.n() - 1) * static_cast<std::size_t>(d.aux_ld) + p.m(),
                      first =
                          static_cast<std::size_t>(batch) * static_cast<std::size_t>(d.aux_stride);
    const bool write = d.has(kRelu | kGelu);
    if (d.has(kRelu | kDrelu))
      add_range(out, static_cast<const std::byte*>(d.aux) + first / 8, (elements + 7) / 8, write);
    else
      add_range(out, offset(d.aux, first, p.aux_type()), elements * width(p.aux_type()), write);
  }
  return out;
}

void run(const Problem& p) {
  for (int batch = 0; batch < p.d.batch; ++batch) run_batch({p, static_cast<std::size_t>(batch)});
}

}  // namespace belfry::sim::blas
