// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/lane_conv_internal.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "belfry/autodiff/ops/image/conv2d_lanes.kernel.h"

namespace belfry {
namespace {

// Lanes of the level in use, whatever this file is compiled for.
std::int64_t lanes() { return instruction_set() == InstructionSet::avx512 ? 16 : 8; }

bool fits(const ConvShape& s, std::int64_t channels, std::int64_t columns) {
  return instruction_set() != InstructionSet::baseline && channels < 8 && s.stride == 1 &&
         s.n >= 16 && s.padding < s.kh && s.padding < s.kw && columns * channels <= kMostLaneRow;
}

std::int64_t blocks_of(const ConvShape& s) { return (s.n + lanes() - 1) / lanes(); }

// Runs all rows now, on the threads that oneDNN would use.
template <class F>
void run_rows(std::size_t rows, const F& f) {
  static const HostBody body = host_body(typeid(F), host_rows<F>);
  const auto threads = static_cast<std::size_t>(std::max(1, omp_get_max_threads()));
  if (threads == 1 || rows < 2 * threads) return body(&f, 0, rows);
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(static, 1)
  for (std::size_t p = 0; p < threads; ++p) body(&f, rows * p / threads, rows * (p + 1) / threads);
}

// Memory of a thread that packs; kept, so that a warmed-up step takes none.
struct Scratch {
  std::vector<float> packed, weight;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

LaneImage packed(const float* x, const ConvShape& s, bool output, std::int64_t margin,
                 std::vector<float>& memory) {
  LaneImage to{nullptr, output ? s.oh : s.h, output ? s.ow : s.w, output ? s.out : s.in, margin, 0};
  to.step = to.c % 4 == 0 ? to.c + 1 : to.c;
  const auto size = static_cast<std::size_t>(blocks_of(s) * to.floats(lanes()));
  if (memory.size() < size) memory.resize(size);
  to.data = memory.data();
  run_rows(static_cast<std::size_t>(blocks_of(s) * to.h), PackImages{x, to, s.n});
  return to;
}

}  // namespace

bool lane_conv_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                       float* y) {
  if (!fits(s, s.out, s.ow)) return false;
  Scratch& mine = scratch();
  const LaneImage from = packed(x, s, false, s.padding, mine.packed);
  const std::int64_t taps = s.kh * s.kw * s.in;
  mine.weight.resize(std::max(mine.weight.size(), static_cast<std::size_t>(taps * s.out)));
  float* w = mine.weight.data();
  for (std::int64_t o = 0; o < s.out; ++o)
    for (std::int64_t k = 0; k < taps; ++k) w[k * s.out + o] = weight[o * taps + k];
  run_rows(static_cast<std::size_t>(blocks_of(s) * s.oh),
           LaneConv{from, w, bias, y, s.n, s.oh, s.ow, s.out, s.kh, s.kw, s.padding});
  return true;
}

// The convolution of dy with the taps in reverse order.
bool lane_conv_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx) {
  if (!fits(s, s.in, s.w)) return false;
  Scratch& mine = scratch();
  const LaneImage from = packed(dy, s, true, s.kw - 1 - s.padding, mine.packed);
  const std::int64_t taps = s.kh * s.kw;
  mine.weight.resize(std::max(mine.weight.size(), static_cast<std::size_t>(taps * s.in * s.out)));
  float* w = mine.weight.data();
  for (std::int64_t o = 0; o < s.out; ++o)
    for (std::int64_t k = 0; k < taps; ++k)
      for (std::int64_t c = 0; c < s.in; ++c)
        w[((taps - 1 - k) * s.out + o) * s.in + c] = weight[(o * taps + k) * s.in + c];
  run_rows(static_cast<std::size_t>(blocks_of(s) * s.h),
           LaneConv{from, w, nullptr, dx, s.n, s.h, s.w, s.in, s.kh, s.kw, s.kh - 1 - s.padding});
  return true;
}

}  // namespace belfry
