// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/loss/labels_internal.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/check_labels.kernel.h"

namespace belfry {

// A fault of a GPU carries three numbers: -classes stands for the rows of an index's table.
void throw_label(std::int64_t row, std::int32_t label, std::int64_t classes) {
  if (classes < 0)
    throw DataError(ErrorText{.what = "index of row " + std::to_string(row) + " is out of range",
                              .found = std::to_string(label),
                              .expected = "an index in [0, " + std::to_string(-classes) + ")"});
  throw DataError(ErrorText{.what = "label of row " + std::to_string(row) + " is out of range",
                            .found = std::to_string(label),
                            .expected = "a label in [0, " + std::to_string(classes) + ")"});
}

namespace {

// How many labels make a row of the batch.
std::int64_t per_row(const Tensor& labels) {
  return labels.shape().rank() < 2 ? 1 : labels.size() / labels.shape()[0];
}

// `classes` below 0: indices into a table of -classes rows.
void check_range(const Tensor& labels, std::int64_t classes, LabelFilter filter) {
  const std::int32_t* y = labels.data<std::int32_t>();
  const std::int64_t limit = classes < 0 ? -classes : classes;
  for (std::int64_t row = 0; row < labels.size(); ++row)
    if (!filter.drops(y[row]) && (y[row] < 0 || y[row] >= limit))
      throw_label(row / per_row(labels), y[row], classes);
}

// Puts the check of the range on the stream.
void launch_check(const Tensor& labels, std::int64_t classes, LabelFilter filter) {
  if (labels.size() == 0) return;
  if (labels.device().host_memory()) {
    stream_of(labels).run(Touches().reads(labels.raw(), labels.bytes()),
                          [labels, classes, filter] { check_range(labels, classes, filter); });
    return;
  }
  const Scope* scope = Scope::current();
  if (scope == nullptr || scope->options().label_fault == nullptr) return;
  launch_rows(stream_of(labels), 1,
              CheckLabels{labels.data<std::int32_t>(), static_cast<std::size_t>(labels.size()),
                          static_cast<std::size_t>(per_row(labels)), classes, filter,
                          scope->options().label_fault});
}

Shape leading(const Shape& shape) {
  std::vector<std::int64_t> extents = shape.extents();
  extents.pop_back();
  return Shape(extents);
}

}  // namespace

void check_labels(const char* op, const Tensor& logits, const Tensor& labels, LabelFilter filter) {
  require_float(op, logits);
  require_rank_at_least(op, logits, 2, "logits");
  if (labels.dtype() != DType::i32)
    throw_op(op, "labels have the wrong element type", std::string(name_of(labels.dtype())), "i32");
  require_shape(op, labels, leading(logits.shape()), "labels");
  if (labels.device().id() != logits.device().id())
    throw_op(op, "labels are on another device", name_of(labels.device().id()),
             name_of(logits.device().id()));
  const std::int64_t classes = logits.shape()[-1];
  if (classes < 1) throw_op(op, "no classes", logits.shape().text(), "at least 1 column");
  launch_check(labels, classes, filter);
}

void check_indices(const Tensor& indices, std::int64_t count) { launch_check(indices, -count, {}); }

std::vector<OpMisuse> label_misuses(const char* op,
                                    std::function<void(const Tensor&, const Tensor&)> call) {
  const auto misuse = [op, call](const char* label, const Shape& logits, const Shape& labels,
                                 DType type, std::vector<std::string> expected) {
    expected.emplace_back(op);
    return OpMisuse{label,
                    [=](Device& d) {
                      call(Tensor::zeros(logits, DType::f32, d), Tensor::zeros(labels, type, d));
                    },
                    expected};
  };
  return {
      misuse("rank", {3}, {}, DType::i32, {"logits", "[3]"}),
      misuse("rows", {4, 3}, {5}, DType::i32, {"labels", "[5]", "[4]"}),
      misuse("label type", {4, 3}, {4}, DType::f32, {"labels", "f32", "i32"}),
      misuse("no classes", {4, 0}, {4}, DType::i32, {"classes", "[4, 0]"}),
  };
}

}  // namespace belfry
