// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "belfry/data/datasets/folders/decode_internal.h"

namespace belfry {
namespace {

// The source pixels of one target pixel along an axis, with weights of sum 1.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

// Target pixel t of `to` lies over [t, t + 1) x length / to of a source that begins at `start`.
std::vector<Taps> taps_of(double start, double length, std::int64_t from, std::int64_t to) {
  const double scale = length / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Taps> out(static_cast<std::size_t>(to));
  for (std::int64_t t = 0; t < to; ++t) {
    Taps& taps = out[static_cast<std::size_t>(t)];
    const double centre = start + (static_cast<double>(t) + 0.5) * scale;
    taps.first =
        std::clamp<std::int64_t>(std::llround(std::floor(centre - reach + 0.5)), 0, from - 1);
    const std::int64_t end = std::clamp<std::int64_t>(
        std::llround(std::floor(centre + reach + 0.5)), taps.first + 1, from);
    double total = 0;
    std::vector<double> weights;
    for (std::int64_t s = taps.first; s < end; ++s) {
      const double away = std::abs(static_cast<double>(s) + 0.5 - centre) / reach;
      weights.push_back(std::max(0.0, 1 - away));
      total += weights.back();
    }
    for (const double w : weights)
      taps.weights.push_back(
          static_cast<float>(total > 0 ? w / total : 1.0 / static_cast<double>(weights.size())));
  }
  return out;
}

// One row of C channels.
template <std::size_t C>
void narrowed(const std::uint8_t* in, const std::vector<Taps>& across, float* out) {
  for (const Taps& taps : across) {
    const std::uint8_t* pixel = in + static_cast<std::size_t>(taps.first) * C;
    float sum[C] = {};
    for (const float weight : taps.weights)
      for (std::size_t k = 0; k < C; ++k) sum[k] += weight * static_cast<float>(*pixel++);
    out = std::copy_n(sum, C, out);
  }
}

}  // namespace

const std::vector<float>& resized(const DecodedImage& image, std::int64_t rows,
                                  std::int64_t columns, bool crop) {
  double height = static_cast<double>(image.rows), width = static_cast<double>(image.columns);
  if (crop) {
    const double ratio = static_cast<double>(columns) / static_cast<double>(rows);
    const double cut_width = std::min(width, height * ratio);
    height = std::min(height, width / ratio);
    width = cut_width;
  }
  const auto across =
      taps_of((static_cast<double>(image.columns) - width) / 2, width, image.columns, columns);
  const auto down =
      taps_of((static_cast<double>(image.rows) - height) / 2, height, image.rows, rows);
  const auto c = static_cast<std::size_t>(image.channels);
  const std::size_t line = static_cast<std::size_t>(columns) * c;
  thread_local std::vector<float> out;  // kept: new pages cost as much as the sums
  out.assign(static_cast<std::size_t>(rows) * line, 0.0f);
  // Line by line of those that some target needs; a whole narrowed image may be far larger than it.
  std::vector<float> narrow(line);
  for (std::int64_t y = down.front().first, r = 0; r < rows; ++y) {
    const std::uint8_t* in = image.pixels.data() + static_cast<std::size_t>(y * image.columns) * c;
    c == 3 ? narrowed<3>(in, across, narrow.data()) : narrowed<1>(in, across, narrow.data());
    for (std::int64_t t = r; t < rows && down[static_cast<std::size_t>(t)].first <= y; ++t) {
      const Taps& taps = down[static_cast<std::size_t>(t)];
      const auto tap = static_cast<std::size_t>(y - taps.first);
      float* to = out.data() + static_cast<std::size_t>(t) * line;
      for (std::size_t k = 0; k < line; ++k) to[k] += taps.weights[tap] * narrow[k];
      if (tap + 1 == taps.weights.size()) r = t + 1;
    }
  }
  return out;
}

}  // namespace belfry
