// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <type_traits>

#include "belfry/device/kernel.h"

namespace belfry {

inline constexpr std::size_t kPoolLanes = 64;   // channels side by side
inline constexpr std::size_t kPoolPixels = 64;  // summed in T before they go to double

// Row n: the means of image n's channels.
template <class T>
struct GlobalAvgPoolForward {
  static constexpr const char* name = kernel_name<T>("global_avg_pool_f32", "global_avg_pool_f64");
  const T* x;
  T* y;
  std::size_t pixels, channels;
  // Channels [first, first + width), row by row.
  BELFRY_HD void columns(const T* image, T* out, std::size_t first, std::size_t width) const {
    double total[kPoolLanes] = {};
    for (std::size_t p = 0; p < pixels; p += kPoolPixels) {
      const std::size_t end = p + kPoolPixels < pixels ? p + kPoolPixels : pixels;
      T sum[kPoolLanes] = {};
      for (std::size_t r = p; r < end; ++r)
        for (std::size_t j = 0; j < width; ++j) sum[j] += image[r * channels + first + j];
      for (std::size_t j = 0; j < width; ++j) total[j] += static_cast<double>(sum[j]);
    }
    for (std::size_t j = 0; j < width; ++j)
      out[first + j] = static_cast<T>(total[j] / static_cast<double>(pixels));
  }
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t n) const {
    const GlobalAvgPoolForward f = *this;
    const T* image = x + n * pixels * channels;
    T* out = y + n * channels;
    if constexpr (std::is_same_v<Team, HostTeam>) {
      for (std::size_t c = 0; c < channels; c += kPoolLanes)
        columns(image, out, c, channels - c < kPoolLanes ? channels - c : kPoolLanes);
    } else {
      team.each(channels, [=](std::size_t c) {
        double total = 0;
        for (std::size_t p = 0; p < f.pixels; p += kPoolPixels) {
          const std::size_t end = p + kPoolPixels < f.pixels ? p + kPoolPixels : f.pixels;
          T sum = 0;
          for (std::size_t r = p; r < end; ++r) sum += image[r * f.channels + c];
          total += static_cast<double>(sum);
        }
        out[c] = static_cast<T>(total / static_cast<double>(f.pixels));
      });
    }
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(x, n * pixels * channels * sizeof(T)).writes(y, n * channels * sizeof(T));
  }
};

// Row n: each pixel of image n gets its share.
template <class T>
struct GlobalAvgPoolBackward {
  static constexpr const char* name =
      kernel_name<T>("global_avg_pool_backward_f32", "global_avg_pool_backward_f64");
  const T* dy;
  T* dx;
  std::size_t pixels, channels;
  template <class Team>
  BELFRY_HD void operator()(Team& team, std::size_t n) const {
    const T* from = dy + n * channels;
    const T share = static_cast<T>(pixels);
    for (std::size_t p = 0; p < pixels; ++p) {
      T* out = dx + (n * pixels + p) * channels;
      team.each(channels, [=](std::size_t c) { out[c] = from[c] / share; });
    }
  }
  void touches(Touches& t, std::size_t n) const {
    t.reads(dy, n * channels * sizeof(T)).writes(dx, n * pixels * channels * sizeof(T));
  }
};

template <class Table>
void kernels_of_global_avg_pool(Table& table) {
  table.template rows<GlobalAvgPoolForward<float>>();
  table.template rows<GlobalAvgPoolBackward<float>>();
}

}  // namespace belfry
