// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/loss/correct.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/correct.kernel.h"
#include "belfry/autodiff/ops/loss/labels_internal.h"

namespace belfry {

Metric correct(const Tensor& logits, const Tensor& labels, std::optional<std::int32_t> ignore) {
  const LabelFilter filter = label_filter(ignore);
  check_labels("correct", logits, labels, filter);
  Metric metric{Tensor::empty({}, logits.dtype(), logits.device()),
                Tensor::empty({}, logits.dtype(), logits.device())};
  with_float("correct", logits, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(logits), 1,
                CountCorrect<T>{logits.data<T>(), labels.data<std::int32_t>(),
                                static_cast<std::size_t>(labels.size()),
                                static_cast<std::size_t>(logits.shape()[-1]), filter,
                                metric.sum.data<T>(), metric.weight.data<T>()});
  });
  return metric;
}

namespace {

OpCase correct_case(const char* label, std::int64_t rows, std::int64_t classes) {
  OpCase c;
  c.label = label;
  c.inputs = {sample({rows, classes}), sample_labels(rows, classes)};
  c.inputs[0].differentiable = true;
  c.run = [](std::span<const Tensor> t) { return correct(t[0], t[1]).sum; };
  c.smooth = false;
  c.reference = [classes](std::span<const std::vector<double>> v) {
    double hits = 0;
    for (std::size_t r = 0; r < v[1].size(); ++r) {
      std::size_t best = 0;
      const double* z = v[0].data() + r * static_cast<std::size_t>(classes);
      for (std::size_t k = 1; k < static_cast<std::size_t>(classes); ++k)
        if (z[k] > z[best]) best = k;
      hits += best == static_cast<std::size_t>(v[1][r]) ? 1 : 0;
    }
    return std::vector<double>{hits};
  };
  return c;
}

}  // namespace

void register_op_correct(Registry& registry) {
  OpEntry entry;
  entry.help = "number of rows whose largest logit is the label";
  entry.cases = [] {
    OpCase ties = correct_case("ties go to the first", 4, 3);
    ties.inputs[0].values = {1, 1, 0, 1, 1, 0, 0, 2, 2, 0, 2, 2};
    ties.inputs[1].values = {0, 1, 1, 2};
    return std::vector<OpCase>{correct_case("normal", 40, 10), correct_case("odd", 7, 3),
                               correct_case("one element", 1, 1), correct_case("empty", 0, 10),
                               std::move(ties)};
  };
  entry.misuses = [] {
    return label_misuses("correct", [](const Tensor& z, const Tensor& y) { correct(z, y); });
  };
  registry.table<OpEntry>().add("correct", std::move(entry));
}

}  // namespace belfry
