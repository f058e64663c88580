// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/lane_conv_internal.h"

#include <omp.h>

#include <algorithm>

#include "belfry/autodiff/ops/image/conv2d_lanes.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_lanes_weights.kernel.h"
#include "belfry/autodiff/ops/image/kernel_rows_internal.h"

namespace belfry {
namespace {

// Lanes of the level in use, whatever this file is compiled for.
std::int64_t lanes() { return instruction_set() == InstructionSet::avx512 ? 16 : 8; }

bool fits(const ConvShape& s, std::int64_t channels, std::int64_t columns) {
  return instruction_set() != InstructionSet::baseline && channels < 8 && s.stride == 1 &&
         s.n >= 16 && s.padding < s.kh && s.padding < s.kw && columns * channels <= kMostLaneRow;
}

std::int64_t blocks_of(const ConvShape& s) { return (s.n + lanes() - 1) / lanes(); }

// Memory of a thread that packs; kept, so that a warmed-up step takes none.
struct Scratch {
  LineMemory packed, slopes, weight;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// Calls fn(first image, images, memory) for each block of as many images as there are lanes, on the
// threads that oneDNN would use. What a block packs stays in the L2 of its core.
template <class F>
void for_blocks(const ConvShape& s, const F& fn) {
  const std::int64_t blocks = blocks_of(s), lane_count = lanes();
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b)
    fn(b * lane_count, std::min(lane_count, s.n - b * lane_count), scratch());
}

LaneImage packed(const float* x, const LaneImage& shape, std::int64_t images, LineMemory& memory) {
  LaneImage to = shape;
  to.step = to.c % 4 == 0 ? to.c + 1 : to.c;
  to.data = memory.of(to.floats(lanes()));
  run_rows(0, to.h, PackImages{x, to, images});
  return to;
}

}  // namespace

bool lane_conv_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                       float* y) {
  if (!fits(s, s.out, s.ow)) return false;
  const std::int64_t taps = s.kh * s.kw * s.in;
  float* w = scratch().weight.of(taps * s.out);
  transpose_taps(weight, s.out, taps, w);
  for_blocks(s, [&](std::int64_t first, std::int64_t images, Scratch& mine) {
    const LaneImage from = packed(x + first * s.h * s.w * s.in,
                                  {nullptr, s.h, s.w, s.in, s.padding, 0}, images, mine.packed);
    run_rows(0, s.oh,
             LaneConv{from, w, bias, y + first * s.oh * s.ow * s.out, images, s.oh, s.ow, s.out,
                      s.kh, s.kw, s.padding});
  });
  return true;
}

// The convolution of dy with the taps in reverse order.
bool lane_conv_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx) {
  if (!fits(s, s.in, s.w)) return false;
  const std::int64_t taps = s.kh * s.kw;
  float* w = scratch().weight.of(taps * s.in * s.out);
  for (std::int64_t o = 0; o < s.out; ++o)
    for (std::int64_t k = 0; k < taps; ++k)
      for (std::int64_t c = 0; c < s.in; ++c)
        w[((taps - 1 - k) * s.out + o) * s.in + c] = weight[(o * taps + k) * s.in + c];
  for_blocks(s, [&](std::int64_t first, std::int64_t images, Scratch& mine) {
    const LaneImage from =
        packed(dy + first * s.oh * s.ow * s.out,
               {nullptr, s.oh, s.ow, s.out, s.kw - 1 - s.padding, 0}, images, mine.packed);
    run_rows(0, s.h,
             LaneConv{from, w, nullptr, dx + first * s.h * s.w * s.in, images, s.h, s.w, s.in, s.kh,
                      s.kw, s.kh - 1 - s.padding});
  });
  return true;
}

bool lane_conv_backward_weights(const ConvShape& s, const float* x, const float* dy,
                                float* dweight) {
  if (s.in > 2 || !fits(s, s.in, s.w)) return false;
  const std::int64_t blocks = blocks_of(s), taps = s.kh * s.kw * s.in, width = lanes();
  float* sums = scratch().weight.of(blocks * taps * s.out * width);
  for_blocks(s, [&](std::int64_t first, std::int64_t images, Scratch& mine) {
    const LaneImage from = packed(x + first * s.h * s.w * s.in,
                                  {nullptr, s.h, s.w, s.in, s.padding, 0}, images, mine.packed);
    const LaneImage slopes = packed(dy + first * s.oh * s.ow * s.out,
                                    {nullptr, s.oh, s.ow, s.out, 0, 0}, images, mine.slopes);
    run_rows(0, 1,
             LaneConvWeights{from, slopes, sums + first * taps * s.out, s.kh, s.kw, s.padding});
  });
  run_rows(0, s.out, AddLanes{sums, blocks, taps, s.out, dweight});
  return true;
}

}  // namespace belfry
