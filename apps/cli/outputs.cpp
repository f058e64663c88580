// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "belfry/apps/cli/outputs_internal.h"

namespace belfry {

std::int64_t answers_of(const Dataset& data) {
  for (const Field& f : data.fields())
    if (f.name == "label" || f.name == "target") return f.shape.size();
  return 1;
}

std::int64_t rows_at_once(const Dataset& data) {
  return std::max<std::int64_t>(1, 1024 / answers_of(data));
}

Outputs outputs_of(TrainSession& session, const std::shared_ptr<const Dataset>& data,
                   std::int64_t first, std::int64_t count, bool ema) {
  const auto each = static_cast<std::size_t>(answers_of(*data));
  const std::string field = session.config().model->input().field;
  const std::string answer = session.regression() ? "target" : "label";
  // Known before the rows are: towers write apart.
  const std::size_t width =
      session.regression() ? 1 : static_cast<std::size_t>(session.data().classes());
  const auto rows = static_cast<std::size_t>(count);
  Outputs out{width, std::vector<double>(rows * each * width), std::vector<double>(rows * each)};
  Loader loader(session.context(), subset(data, first, count),
                {.batch = count, .shuffle = false, .prefetch = 0});
  session.group().evaluate(
      loader,
      [&](Module& module, const Batch& batch, Step&) {
        const Tensor y = static_cast<Classifier&>(module).forward(batch[field]);
        const std::vector<double> values = y.to_vector(), answers = batch[answer].to_vector();
        const std::size_t start = static_cast<std::size_t>(batch.first_row) * each;
        std::copy(values.begin(), values.end(),
                  out.values.begin() + static_cast<std::ptrdiff_t>(start * width));
        std::copy(answers.begin(), answers.end(),
                  out.answers.begin() + static_cast<std::ptrdiff_t>(start));
        const Tensor one = Tensor::from({1}, Shape{}, DType::f32, y.device());
        return Loss{one, one};  // what it is worth has been told
      },
      ema);
  return out;
}

std::string RowCells::of(std::int64_t row) const {
  const RowPlace place = data_.place(row);
  return std::to_string(place.row) + "," + (files_ ? csv_cell(place.file) + "," : "");
}

Prediction predicted(double label, std::span<const double> scores) {
  const auto best = std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const double z : scores) total += std::exp(z - *best);
  return {label, best - scores.begin(), 1 / total};
}

}  // namespace belfry
