// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/norm/batch_norm.h"

#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/norm/batch_norm_apply.kernel.h"
#include "belfry/autodiff/ops/norm/batch_norm_cases_internal.h"
#include "belfry/autodiff/ops/norm/batch_norm_input.kernel.h"

namespace belfry {
namespace {

constexpr const char* kOp = "batch_norm";

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
           const BatchNormOptions& o) {
  require_float(kOp, x);
  require_rank_at_least(kOp, x, 2, "input");
  const std::int64_t channels = x.shape()[-1];
  if (channels < 1) throw_op(kOp, "input has no channels", x.shape().text(), "at least 1 channel");
  require_like(kOp, x, weight, "weight");
  require_shape(kOp, weight, {channels}, "weight");
  require_like(kOp, x, bias, "bias");
  require_shape(kOp, bias, {channels}, "bias");
  if (!(o.eps > 0 && std::isfinite(o.eps)))
    throw_op(kOp, "eps is out of range", std::to_string(o.eps), "a number above 0");
  if (!residual.defined()) return;
  require_like(kOp, x, residual, "residual");
  require_shape(kOp, residual, x.shape(), "residual");
}

// Blocks that suit the device: few for one thread, many where they run side by side.
NormPlan plan_of(const Tensor& x) {
  const auto channels = static_cast<std::size_t>(x.shape()[-1]);
  return norm_plan(static_cast<std::size_t>(x.size()) / channels, channels,
                   x.device().id().backend == Backend::cpu ? 8 : 1);
}

struct Saved {
  NormPlan plan;
  Tensor x, y;      // y with ReLU
  Tensor channels;  // mean, inverse, scale
  bool fixed;       // the statistics were given
};

template <class T>
NormChannels<T> channels_of(const Tensor& t) {
  T* const data = t.data<T>();
  const std::int64_t n = t.shape()[1];
  return {data, data + n, data + 2 * n};
}

Tensor partials(const NormPlan& plan, const Tensor& x) {
  return Tensor::empty(
      {static_cast<std::int64_t>(plan.blocks()), 2, static_cast<std::int64_t>(plan.lanes())},
      DType::f64, x.device());
}

template <class T>
void measure(const Saved& s, const Tensor& weight, double eps, const Tensor* moments) {
  Stream& stream = stream_of(s.x);
  const Tensor partial = partials(s.plan, s.x);
  auto* const sums = partial.data<double>();
  launch_rows(stream, s.plan.blocks(), BatchNormSums<T>{s.plan, s.x.data<T>(), sums});
  launch_rows(stream, s.plan.channels,
              BatchNormMoments<T>{s.plan, s.x.data<T>(), sums, weight.data<T>(), eps,
                                  channels_of<T>(s.channels),
                                  moments == nullptr ? nullptr : moments->data<T>()});
}

template <class T>
void backward(Backward& b, const Saved& s) {
  Stream& stream = stream_of(s.x);
  const Tensor& grad = b.grad();  // no copy, beside which it would not be written in place
  const bool residual = b.wants(3);
  const T* y = s.y.defined() ? s.y.data<T>() : nullptr;
  Tensor dz;  // where it has to be written
  if (residual && y != nullptr)
    dz = b.into_in_place(3);
  else if (residual)
    b.give(3, grad);
  if (!b.wants(0) && !b.wants(1) && !b.wants(2) && !dz.defined()) return;
  const Tensor partial = partials(s.plan, s.x),
               line = Tensor::empty({2, s.channels.shape()[1]}, s.x.dtype(), s.x.device());
  T* const out = dz.defined() ? dz.data<T>() : nullptr;
  const NormChannels<T> of = channels_of<T>(s.channels);
  launch_rows(stream, s.plan.blocks(),
              BatchNormGradSums<T>{s.plan, grad.data<T>(), y, s.x.data<T>(), of.mean, out,
                                   partial.data<double>()});
  T* const slope = line.data<T>();
  T* const offset = slope + s.plan.channels;
  launch_rows(stream, s.plan.channels,
              BatchNormGradMoments<T>{s.plan, partial.data<double>(), of, s.fixed,
                                      b.wants(1) ? b.into(1).data<T>() : nullptr,
                                      b.wants(2) ? b.into(2).data<T>() : nullptr, slope, offset});
  if (!b.wants(0)) return;
  launch_rows(stream, s.plan.blocks(),
              BatchNormGradInput<T>{s.plan, out != nullptr ? out : grad.data<T>(),
                                    out != nullptr ? nullptr : y, s.x.data<T>(), of, slope, offset,
                                    b.into_in_place(0).data<T>()});
}

// From statistics in s.channels.
template <class T>
Tensor apply(Saved s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& residual, bool relu) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  launch_rows(
      stream_of(x), s.plan.blocks(),
      BatchNormApply<T>{s.plan, x.data<T>(), residual.defined() ? residual.data<T>() : nullptr,
                        channels_of<T>(s.channels), bias.data<T>(), relu, y.data<T>()});
  if (relu) s.y = y;
  return recorded(
      kOp, std::move(y), [saved = std::move(s)](Backward& b) { backward<T>(b, saved); }, x, weight,
      bias, residual);
}

Saved saved_of(const Tensor& x, bool fixed) {
  return {
      plan_of(x), x.detach(), {}, Tensor::empty({3, x.shape()[-1]}, x.dtype(), x.device()), fixed};
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                  BatchNormOptions options, Tensor* moments) {
  check(x, weight, bias, residual, options);
  const std::int64_t channels = x.shape()[-1], values = x.size() / channels;
  if (values < 2)
    throw_op(kOp, "too few values to normalise in training",
             std::to_string(values) + " a channel, input " + x.shape().text(),
             "at least 2: leave out short batches (loader.drop_last), or use a larger batch, fewer "
             "towers or fewer micro-batches");
  if (moments != nullptr) *moments = Tensor::empty({2, channels}, x.dtype(), x.device());
  return with_float(kOp, x, [&](auto scalar) {
    using T = decltype(scalar);
    Saved s = saved_of(x, false);
    measure<T>(s, weight, options.eps, moments);
    return apply<T>(std::move(s), x, weight, bias, residual, options.relu);
  });
}

Tensor batch_norm_given(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, const Tensor& mean, const Tensor& variance,
                        BatchNormOptions options) {
  check(x, weight, bias, residual, options);
  for (const auto& [t, name] : {std::pair{&mean, "mean"}, std::pair{&variance, "variance"}}) {
    require_like(kOp, x, *t, name);
    require_shape(kOp, *t, {x.shape()[-1]}, name);
  }
  return with_float(kOp, x, [&](auto scalar) {
    using T = decltype(scalar);
    Saved s = saved_of(x, true);
    launch_elements(stream_of(x), s.plan.channels,
                    BatchNormGiven<T>{mean.data<T>(), variance.data<T>(), weight.data<T>(),
                                      options.eps, channels_of<T>(s.channels)});
    return apply<T>(std::move(s), x, weight, bias, residual, options.relu);
  });
}

void register_op_batch_norm(Registry& registry) {
  registry.table<OpEntry>().add("batch_norm", batch_norm_entry());
}

}  // namespace belfry
