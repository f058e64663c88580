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

}  // namespace

std::vector<float> resized(const DecodedImage& image, std::int64_t rows, std::int64_t columns,
                           bool crop) {
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
  std::vector<float> narrow(static_cast<std::size_t>(image.rows) * line);
  for (std::size_t r = 0; r < static_cast<std::size_t>(image.rows); ++r) {
    const std::uint8_t* in = image.pixels.data() + r * static_cast<std::size_t>(image.columns) * c;
    float* out = narrow.data() + r * line;
    for (const Taps& taps : across)
      for (std::size_t k = 0; k < c; ++k) {
        float sum = 0;
        for (std::size_t i = 0; i < taps.weights.size(); ++i)
          sum += taps.weights[i] *
                 static_cast<float>(in[(static_cast<std::size_t>(taps.first) + i) * c + k]);
        *out++ = sum;
      }
  }
  std::vector<float> out(static_cast<std::size_t>(rows) * line, 0.0f);
  for (std::size_t r = 0; r < down.size(); ++r)
    for (std::size_t i = 0; i < down[r].weights.size(); ++i) {
      const float weight = down[r].weights[i];
      const float* in = narrow.data() + (static_cast<std::size_t>(down[r].first) + i) * line;
      float* to = out.data() + r * line;
      for (std::size_t k = 0; k < line; ++k) to[k] += weight * in[k];
    }
  return out;
}

}  // namespace belfry
