// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/winograd_internal.h"

#include <algorithm>

#include "belfry/autodiff/ops/image/kernel_rows_internal.h"
#include "belfry/autodiff/ops/image/winograd_conv.kernel.h"
#include "belfry/autodiff/ops/image/winograd_weights.kernel.h"

namespace belfry {
namespace {

// Tiles without which transforming the taps does not pay.
constexpr std::int64_t kLeastTiles = 48;
// Products of channels whose transformed taps (2.3 MB) a core's L2 cannot hold: they are read for
// more tiles at a time.
constexpr std::int64_t kManyChannels = std::int64_t{128} * 128;

bool fits(const ConvShape& s, const WinogradShape& w) {
  return instruction_set() != InstructionSet::baseline && s.kh == 3 && s.kw == 3 && s.stride == 1 &&
         s.padding <= 2 && s.in % 16 == 0 && s.out % 16 == 0 && w.tiles() >= kLeastTiles &&
         w.rows() * w.columns() * 16 <= 2 * w.oh * w.ow;
}

// Memory of a thread that calls; kept, so that a warmed-up step takes none.
struct Scratch {
  LineMemory weight, taps, inputs, slopes, sums;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// Rows on the threads that oneDNN would use.
template <class F>
void parallel_rows(std::int64_t rows, const F& f) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) run_rows(r, r + 1, f);
}

// y = x * w: w [3, 3, in, out] with rows `row` and taps `tap` floats apart.
void convolve(const WinogradShape& s, const float* x, const float* w, std::int64_t tap,
              std::int64_t row, bool reverse, const float* bias, float* y) {
  float* u = scratch().taps.of(kWinogradPoints * winograd_plane(s.in, s.out));
  parallel_rows(s.out / 16, WinogradTaps{w, u, s.in, s.out, tap, row, reverse});
  const std::int64_t group = s.in * s.out > kManyChannels ? 96 : 24;
  parallel_rows((s.tiles() + group - 1) / group, WinogradConv{s, x, u, bias, y, group});
}

}  // namespace

bool winograd_forward(const ConvShape& s, const float* x, const float* weight, const float* bias,
                      float* y) {
  const WinogradShape shape{s.n, s.h, s.w, s.in, s.oh, s.ow, s.out, s.padding};
  if (!fits(s, shape)) return false;
  const std::int64_t taps = 9 * s.in;
  float* w = scratch().weight.of(taps * s.out);
  transpose_taps(weight, s.out, taps, w);
  convolve(shape, x, w, s.in * s.out, s.out, false, bias, y);
  return true;
}

// The convolution of dy with the taps in reverse order.
bool winograd_backward_data(const ConvShape& s, const float* dy, const float* weight, float* dx) {
  const WinogradShape shape{s.n, s.oh, s.ow, s.out, s.h, s.w, s.in, 2 - s.padding};
  if (!fits(s, shape)) return false;
  convolve(shape, dy, weight, s.in, 9 * s.in, true, nullptr, dx);
  return true;
}

bool winograd_backward_weights(const ConvShape& s, const float* x, const float* dy,
                               float* dweight) {
  const WinogradShape shape{s.n, s.h, s.w, s.in, s.oh, s.ow, s.out, s.padding};
  if (!fits(s, shape)) return false;
  // Chunks that stay in L2; of many channels larger ones, since all sums are read and written for
  // each. They depend on the shape alone: so do the bits.
  const std::int64_t chunk =
      s.in * s.out > kManyChannels
          ? 128
          : std::clamp<std::int64_t>((512 << 10) / (4 * kWinogradPoints * (s.in + s.out)), 24, 192);
  const std::int64_t in = winograd_plane(chunk, s.in), out = winograd_plane(chunk, s.out);
  const std::int64_t size = kWinogradPoints * winograd_plane(s.out, s.in);
  Scratch& mine = scratch();
  float *v = mine.inputs.of(kWinogradPoints * in), *m = mine.slopes.of(kWinogradPoints * out);
  float* sums = mine.sums.of(size);
  std::fill_n(sums, size, 0.f);
  for (std::int64_t first = 0; first < shape.tiles(); first += chunk) {
    const std::int64_t tiles = std::min(chunk, shape.tiles() - first);
    const WinogradSlopes slopes{shape, x, dy, v, m, first, in, out};
    parallel_rows(tiles, slopes);
    parallel_rows(kWinogradPoints, WinogradSums{slopes, sums, tiles});
  }
  parallel_rows(s.out, WinogradTapSlopes{sums, dweight, s.in, s.out});
  return true;
}

}  // namespace belfry
