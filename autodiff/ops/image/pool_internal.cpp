// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/image/pool_internal.h"

#include "belfry/autodiff/ops/checks_internal.h"

namespace belfry {

PoolShape pool_shape(const char* op, const Tensor& x, PoolOptions o) {
  require_float(op, x);
  require_rank(op, x, 4, "input");
  if (o.stride == 0) o.stride = o.kernel;
  if (o.kernel < 1 || o.stride < 1 || o.padding < 0 || 2 * o.padding > o.kernel)
    throw_op(op, "window is out of range",
             "kernel " + std::to_string(o.kernel) + ", stride " + std::to_string(o.stride) +
                 ", padding " + std::to_string(o.padding),
             "kernel >= 1, stride >= 1, 0 <= padding <= kernel / 2");
  PoolShape s{.n = x.shape()[0], .h = x.shape()[1], .w = x.shape()[2], .c = x.shape()[3]};
  s.kernel = o.kernel, s.stride = o.stride, s.padding = o.padding;
  if (s.h + 2 * s.padding < s.kernel || s.w + 2 * s.padding < s.kernel || s.h == 0 || s.w == 0)
    throw_op(op, "image is smaller than the window",
             x.shape().text() + " and a window of " + std::to_string(s.kernel),
             "a padded image of at least the window's size");
  s.oh = (s.h + 2 * s.padding - s.kernel) / s.stride + 1;
  s.ow = (s.w + 2 * s.padding - s.kernel) / s.stride + 1;
  return s;
}

namespace {

using Combine = double (*)(const std::vector<double>&, double);

std::vector<double> reference(const Shape& x, PoolOptions o, const std::vector<double>& v,
                              Combine combine) {
  const std::int64_t stride = o.stride == 0 ? o.kernel : o.stride;
  std::vector<double> y;
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t top = -o.padding; top + o.kernel <= x[1] + o.padding; top += stride)
      for (std::int64_t left = -o.padding; left + o.kernel <= x[2] + o.padding; left += stride)
        for (std::int64_t c = 0; c < x[3]; ++c) {
          std::vector<double> window;
          for (std::int64_t k = 0; k < o.kernel * o.kernel; ++k) {
            const std::int64_t iy = top + k / o.kernel, ix = left + k % o.kernel;
            if (iy >= 0 && iy < x[1] && ix >= 0 && ix < x[2])
              window.push_back(
                  v[static_cast<std::size_t>(((n * x[1] + iy) * x[2] + ix) * x[3] + c)]);
          }
          y.push_back(combine(window, static_cast<double>(o.kernel * o.kernel)));
        }
  return y;
}

}  // namespace

OpEntry pool_entry(const char* help, const char* name, Tensor (*op)(const Tensor&, PoolOptions),
                   Combine combine) {
  const auto make = [op, combine](const char* label, const Shape& x, PoolOptions options) {
    OpCase c;
    c.label = label;
    c.inputs = {sample(x)};
    c.run = [op, options](std::span<const Tensor> t) { return op(t[0], options); };
    c.reference = [=](std::span<const std::vector<double>> v) {
      return reference(x, options, v[0], combine);
    };
    return c;
  };
  OpEntry entry;
  entry.help = help;
  entry.cases = [make] {
    return std::vector<OpCase>{
        make("normal", {2, 8, 8, 6}, {}),
        make("16 channels", {2, 6, 6, 16}, {}),
        make("odd, rest cut off", {3, 7, 5, 3}, {}),
        make("overlapping", {2, 7, 7, 4}, {.kernel = 3, .stride = 2}),
        make("overlapping, padded", {2, 6, 7, 5}, {.kernel = 3, .stride = 2, .padding = 1}),
        make("gaps", {1, 8, 8, 2}, {.kernel = 2, .stride = 3}),
        make("padded", {1, 4, 6, 2}, {.kernel = 2, .padding = 1}),
        make("one element", {1, 1, 1, 1}, {.kernel = 1}),
        make("empty", {0, 8, 8, 3}, {}),
    };
  };
  entry.misuses = [op, name] {
    const auto call = [op](const Shape& x, PoolOptions options = {}, DType type = DType::f32) {
      return [=](Device& d) { op(Tensor::zeros(x, type, d), options); };
    };
    return std::vector<OpMisuse>{
        {"rank", call({8, 8, 3}), {name, "input", "[8, 8, 3]"}},
        {"window", call({1, 2, 2, 1}, {.kernel = 3}), {name, "[1, 2, 2, 1]", "3"}},
        {"padding", call({1, 4, 4, 1}, {.kernel = 2, .padding = 2}), {name, "padding 2"}},
        {"stride", call({1, 4, 4, 1}, {.kernel = 2, .stride = -1}), {name, "stride -1"}},
        {"integers", call({1, 4, 4, 1}, {}, DType::i32), {name, "i32"}},
    };
  };
  return entry;
}

}  // namespace belfry
