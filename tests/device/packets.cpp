// SPDX-License-Identifier: MIT
// Element functors on packets of four, as GPUs run them, on the host.
#include <vector>

#include "belfry/device/half.h"
#include "belfry/device/run_packets.h"
#include "belfry/tests/catch.h"

using namespace belfry;

namespace {

// state += x, y = 2 x + state; y may be x.
template <class T>
struct Running {
  const T* x;
  T* state;
  T* y;
  const T* scale;  // a scalar
  void operator()(std::size_t i) const {
    state[i] = state[i] + x[i];
    y[i] = *scale * x[i] + state[i];
  }
  template <class V>
  void arrays(V& v) {
    v.reads(x).updates(state).writes(y);
  }
};

// What index the functor is called with: in a packet it counts from 0.
struct Index {
  float* y;
  void operator()(std::size_t i) const { y[i] = static_cast<float>(i); }
  template <class V>
  void arrays(V& v) {
    v.writes(y);
  }
};

struct Mixed {
  const BFloat16* x;
  const double* z;
  float* y;
  void operator()(std::size_t i) const {
    y[i] = static_cast<float>(x[i]) + static_cast<float>(z[i]);
  }
  template <class V>
  void arrays(V& v) {
    v.reads(x).reads(z).writes(y);
  }
};

// Memory that begins at a multiple of 64 bytes.
template <class T>
struct Aligned {
  explicit Aligned(std::size_t n) : lines(n * sizeof(T) / 64 + 2) {}
  T* data() { return reinterpret_cast<T*>(lines.data()); }
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<Line> lines;
};

template <class F>
void run(const F& f, std::size_t begin, std::size_t end, std::size_t workers) {
  for (std::size_t w = workers; w-- > 0;) run_share(f, begin, end, w, workers);
}

}  // namespace

TEST_CASE("packets give what single elements give, wherever arrays begin and ranges end") {
  static_assert(HasArrays<Running<float>>);
  constexpr std::size_t kMost = 45;
  for (const std::size_t shift : {0, 1, 2, 3, 4})  // of all arrays
    for (const std::size_t other : {0, 1})         // of one of them besides
      for (const bool in_place : {false, true})
        for (std::size_t n = 0; n <= kMost; ++n)
          for (const std::size_t begin : {std::size_t{0}, n / 3, n}) {
            Aligned<float> x(kMost + 8), state(kMost + 8), y(kMost + 8);
            std::vector<float> states(kMost + 8), results(kMost + 8);
            for (std::size_t i = 0; i < kMost + 8; ++i) {
              x.data()[i] = 1 + static_cast<float>(i);
              state.data()[i] = states[i] = 100 * static_cast<float>(i);
              y.data()[i] = results[i] = -1;
            }
            const float scale = 2;
            float* const to = in_place ? x.data() : y.data();
            if (in_place)
              for (std::size_t i = 0; i < kMost + 8; ++i) results[i] = x.data()[i];
            for (std::size_t i = begin; i < n; ++i) {
              states[shift + other + i] += x.data()[shift + i];
              results[shift + i] = scale * x.data()[shift + i] + states[shift + other + i];
            }
            run(Running<float>{x.data() + shift, state.data() + shift + other, to + shift, &scale},
                begin, n, 1 + n % 5);
            INFO("shifts " << shift << " and " << other << ", from " << begin << " to " << n);
            CHECK(std::vector<float>(to, to + kMost + 8) == results);
            CHECK(std::vector<float>(state.data(), state.data() + kMost + 8) == states);
          }
}

TEST_CASE("whole packets of aligned arrays are run as such, and nothing else") {
  Aligned<float> y(64);
  const auto indices = [&](std::size_t shift, std::size_t begin, std::size_t end) {
    std::fill_n(y.data(), 64, -1.f);
    run(Index{y.data() + shift}, begin, end, 3);
    return std::vector<float>(y.data() + shift, y.data() + shift + 12);
  };
  using Values = std::vector<float>;
  CHECK(indices(0, 0, 10) == Values{0, 1, 2, 3, 0, 1, 2, 3, 8, 9, -1, -1});
  CHECK(indices(4, 0, 12) == Values{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(indices(0, 2, 11) == Values{-1, -1, 2, 3, 0, 1, 2, 3, 8, 9, 10, -1});
  CHECK(indices(0, 5, 7) == Values{-1, -1, -1, -1, -1, 5, 6, -1, -1, -1, -1, -1});
  CHECK(indices(1, 0, 12) == Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("packets of elements of 2, 4 and 8 bytes") {
  Aligned<BFloat16> x(32);
  Aligned<double> z(32);
  Aligned<float> y(32);
  for (std::size_t i = 0; i < 32; ++i) {
    x.data()[i] = BFloat16(static_cast<float>(i));
    z.data()[i] = 0.5;
  }
  run(Mixed{x.data(), z.data(), y.data()}, 0, 30, 2);
  for (std::size_t i = 0; i < 30; ++i) CHECK(y.data()[i] == static_cast<float>(i) + 0.5f);
  CHECK(y.data()[30] == 0);
}
