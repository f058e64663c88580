// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <limits>
#include <type_traits>

#include "belfry/autodiff/ops/sequence/tile.kernel.h"
#include "belfry/device/host_scratch.h"
#include "belfry/device/lanes.h"
#include "belfry/device/unroll.h"

// What the host's attention is made of: operands are packed into memory of this thread that vectors
// fit into, and blocks of queries go through products in registers. Memory is linear in the number
// of keys.
namespace belfry {

inline constexpr std::size_t kQueryRows = 8;  // queries whose products with all keys are at hand

template <class T>
struct AttentionHost {
  static constexpr std::size_t kLanes = kVectorLanes<T>, kColumns = 2 * kLanes;
  static std::size_t padded(std::size_t n) { return (n + kColumns - 1) / kColumns * kColumns; }

  // `elements` of this thread's memory.
  static T* memory(std::size_t elements) {
    return static_cast<T*>(host_scratch(elements * sizeof(T)));
  }
  // to [rows, to_row] = the first `width` of each of x's rows, zeros behind.
  static void pack(const T* x, std::size_t stride, std::size_t rows, std::size_t width, T* to,
                   std::size_t to_row) {
    for (std::size_t r = 0; r < rows; ++r, x += stride, to += to_row) {
      for (std::size_t c = 0; c < width; ++c) to[c] = x[c];
      for (std::size_t c = width; c < to_row; ++c) to[c] = T(0);
    }
  }
  // A register of x's columns by as many rows, in registers: element by element it was 18 % of
  // attention.
  static void transpose_block(const float* x, std::size_t stride, float* to, std::size_t to_row) {
    Lanes part[Lanes::count];
    BELFRY_UNROLL
    for (std::size_t i = 0; i < Lanes::count; ++i) part[i] = Lanes::load(x + i * stride);
    transpose(part);
    BELFRY_UNROLL
    for (std::size_t i = 0; i < Lanes::count; ++i) part[i].store(to + i * to_row);
  }
  // to [width, to_row] = x transposed times `scale`, zeros behind.
  static void pack_transposed(const T* x, std::size_t stride, std::size_t rows, std::size_t width,
                              T scale, T* to, std::size_t to_row) {
    std::size_t done_rows = 0, done = 0;  // in registers
    if constexpr (std::is_same_v<T, float>) {
      constexpr std::size_t block = Lanes::count;
      done_rows = rows / block * block, done = width / block * block;
      for (std::size_t r = 0; r < done_rows; r += block)
        for (std::size_t c = 0; c < done; c += block)
          transpose_block(x + r * stride + c, stride, to + c * to_row + r, to_row);
    }
    for (std::size_t c = 0; c < width; ++c) {
      T* const line = to + c * to_row;
      for (std::size_t r = c < done ? done_rows : 0; r < rows; ++r) line[r] = x[r * stride + c];
      for (std::size_t r = 0; r < rows; ++r) line[r] *= scale;
      for (std::size_t r = rows; r < to_row; ++r) line[r] = T(0);
    }
  }
  // c [rows, columns] = a [rows, k] b [k, columns]; rows and columns are whole tiles.
  template <bool kAdd>
  static void product(std::size_t rows, std::size_t columns, std::size_t k, const T* a,
                      std::size_t a_row, std::size_t a_term, const T* b, std::size_t b_row, T* c,
                      std::size_t c_row) {
    for (std::size_t n = 0; n < columns; n += kColumns)
      for (std::size_t m = 0; m < rows; m += kTileRows)
        tile<T, kAdd>(k, a + m * a_row, a_row, a_term, b + n, b_row, c + m * c_row + n, c_row);
  }
  static bool finite(const T* x, std::size_t stride, std::size_t rows, std::size_t width) {
    int bad = 0;  // a sum of floats would wait for each addition
    for (std::size_t r = 0; r < rows; ++r, x += stride)
      for (std::size_t c = 0; c < width; ++c) bad |= x[c] - x[c] == T(0) ? 0 : 1;
    return bad == 0;
  }
  static T dot(const T* a, const T* b, std::size_t n) {
    T part[16] = {}, sum = T(0);
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (std::size_t l = 0; l < 16; ++l) part[l] += a[i + l] * b[i + l];
    for (; i < n; ++i) sum += a[i] * b[i];
    for (std::size_t l = 0; l < 16; ++l) sum += part[l];
    return sum;
  }
  // p[0..n) = e^(p - largest), zeros up to `end`; returns their sum, and the largest.
  static T exponentials(T* p, std::size_t n, std::size_t end, T* largest) {
    for (std::size_t j = n; j < end; ++j) p[j] = std::numeric_limits<T>::lowest();
    Vector<T> top = splat(std::numeric_limits<T>::lowest()), sum{};
    for (std::size_t j = 0; j < end; j += kLanes) {
      const Vector<T> x = load_vector(p + j);
      top = x > top ? x : top;
    }
    T most = top[0];
    for (std::size_t l = 1; l < kLanes; ++l) most = top[l] > most ? top[l] : most;
    for (std::size_t j = 0; j < end; j += kLanes) {  // those behind are nothing beside e^0
      const Vector<T> e = exp_vector(load_vector(p + j) - most);
      store_vector(p + j, e);
      sum += e;
    }
    for (std::size_t j = n; j < end; ++j) p[j] = T(0);
    T total = T(0);
    for (std::size_t l = 0; l < kLanes; ++l) total += sum[l];
    *largest = most;
    return total;
  }
};

}  // namespace belfry
