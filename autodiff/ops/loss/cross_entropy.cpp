// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/loss/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/cross_entropy.kernel.h"
#include "belfry/autodiff/ops/loss/cross_entropy_backward.kernel.h"
#include "belfry/autodiff/ops/loss/labels_internal.h"

namespace belfry {
namespace {

void backward(Backward& b, const Tensor& probabilities, const Tensor& labels, const Tensor& weight,
              LabelFilter filter, double smoothing) {
  with_float("cross_entropy", probabilities, [&](auto scalar) {
    using T = decltype(scalar);
    const Tensor dz = b.into(0);
    launch_rows(stream_of(dz), static_cast<std::size_t>(labels.size()),
                CrossEntropyBackward<T>{probabilities.data<T>(), labels.data<std::int32_t>(),
                                        b.grad().data<T>(), weight.data<T>(), dz.data<T>(),
                                        static_cast<std::size_t>(probabilities.shape()[-1]), filter,
                                        static_cast<T>(smoothing)});
  });
}

}  // namespace

Loss cross_entropy(const Tensor& logits, const Tensor& labels, std::optional<std::int32_t> ignore,
                   double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1))
    throw_op("cross_entropy", "smoothing is out of range", std::to_string(smoothing),
             "a number in [0, 1)");
  const LabelFilter filter = label_filter(ignore);
  check_labels("cross_entropy", logits, labels, filter);
  const auto rows = static_cast<std::size_t>(labels.size());
  const auto classes = static_cast<std::size_t>(logits.shape()[-1]);
  Device& device = logits.device();
  const DType type = logits.dtype();
  Tensor probabilities = Tensor::empty(logits.shape(), type, device);
  Tensor losses = Tensor::empty(labels.shape(), type, device);
  Loss loss{Tensor::empty({}, type, device), Tensor::empty({}, type, device)};
  with_float("cross_entropy", logits, [&](auto scalar) {
    using T = decltype(scalar);
    const auto* y = labels.data<std::int32_t>();
    Stream& stream = stream_of(logits);
    launch_rows(stream, rows,
                CrossEntropyRow<T>{logits.data<T>(), y, probabilities.data<T>(), losses.data<T>(),
                                   classes, filter, static_cast<T>(smoothing)});
    launch_rows(stream, 1,
                CrossEntropyMean<T>{losses.data<T>(), y, rows, filter, loss.mean.data<T>(),
                                    loss.weight.data<T>()});
  });
  loss.mean = recorded(
      "cross_entropy", std::move(loss.mean),
      [probabilities, labels = labels.detach(), weight = loss.weight, filter,
       smoothing](Backward& b) { backward(b, probabilities, labels, weight, filter, smoothing); },
      logits);
  return loss;
}

namespace {

// The textbook form: mean of -sum of target x log softmax over the labels that count.
double reference(const std::vector<double>& z, const std::vector<double>& y, double ignored,
                 double smoothing) {
  const std::size_t classes = y.empty() ? 0 : z.size() / y.size();
  double total = 0, count = 0;
  for (std::size_t r = 0; r < y.size(); ++r) {
    if (y[r] == ignored) continue;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(z[r * classes + c]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double hit = static_cast<std::size_t>(y[r]) == c ? 1 - smoothing : 0;
      const double target = hit + smoothing / static_cast<double>(classes);
      total += target * (std::log(sum) - z[r * classes + c]);
    }
    count += 1;
  }
  return count > 0 ? total / count : 0;
}

OpCase cross_entropy_case(const char* label, std::int64_t rows, std::int64_t classes, double limit,
                          std::optional<std::int32_t> ignore = {}, double smoothing = 0) {
  OpCase c;
  c.label = label;
  c.inputs = {sample({rows, classes}, limit), sample_labels(rows, classes)};
  c.run = [=](std::span<const Tensor> t) {
    return cross_entropy(t[0], t[1], ignore, smoothing).mean;
  };
  c.reference = [=](std::span<const std::vector<double>> v) {
    const double ignored = ignore ? static_cast<double>(*ignore) : -1e9;
    return std::vector<double>{reference(v[0], v[1], ignored, smoothing)};
  };
  return c;
}

std::vector<OpCase> cases() {
  OpCase sequence = cross_entropy_case("three axes", 6, 5, 2.0);
  sequence.inputs[0].shape = {2, 3, 5};
  sequence.inputs[1].shape = {2, 3};
  OpCase ignored = cross_entropy_case("some ignored", 5, 3, 2.0, -100);
  ignored.inputs[1].values = {0, -100, 2, -100, 1};
  OpCase smooth_ignored = cross_entropy_case("smoothed, some ignored", 5, 3, 2.0, -100, 0.3);
  smooth_ignored.inputs[1].values = {0, -100, 2, -100, 1};
  OpCase all_ignored = cross_entropy_case("all ignored", 2, 3, 2.0, 7);
  all_ignored.inputs[1].values = {7, 7};
  return {
      cross_entropy_case("normal", 16, 10, 3.0),
      cross_entropy_case("odd, more classes than lanes", 3, 131, 5.0),
      cross_entropy_case("large logits", 5, 4, 60.0),
      cross_entropy_case("one class", 3, 1, 2.0),
      cross_entropy_case("one element", 1, 1, 2.0),
      cross_entropy_case("empty", 0, 10, 1.0),
      std::move(sequence),
      std::move(ignored),
      cross_entropy_case("smoothed", 16, 10, 3.0, {}, 0.1),
      cross_entropy_case("smoothed, large logits", 5, 131, 60.0, {}, 0.5),
      std::move(smooth_ignored),
      std::move(all_ignored),
  };
}

}  // namespace

void register_op_cross_entropy(Registry& registry) {
  OpEntry entry;
  entry.help = "mean softmax cross-entropy of logits and labels; the weight counts valid labels";
  entry.cases = cases;
  entry.misuses = [] {
    return label_misuses("cross_entropy",
                         [](const Tensor& z, const Tensor& y) { cross_entropy(z, y); });
  };
  registry.table<OpEntry>().add("cross_entropy", std::move(entry));
}

}  // namespace belfry
