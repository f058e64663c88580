// SPDX-License-Identifier: MIT
#include "belfry/bench/common/images.h"

#include <vector>

#include "belfry/core/philox.h"
#include "belfry/data/memory.h"

namespace belfry::bench {

std::shared_ptr<const Dataset> images(std::int64_t rows, const Shape& image) {
  const Philox random = philox_key(1, Purpose::test);
  std::vector<float> pixels(static_cast<std::size_t>(rows * image.size()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = unit_float(random(static_cast<std::uint32_t>(i), 0, 0, 0).v[0]);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  return memory_dataset(std::move(pixels), image, std::move(labels), 10);
}

std::shared_ptr<const Dataset> sentences(std::int64_t rows) {
  const Philox random = philox_key(1, Purpose::test);
  const auto n = static_cast<std::size_t>(rows * 128);
  std::vector<std::int32_t> tokens(n), labels(n);
  for (std::size_t i = 0; i <= n; ++i) {
    const auto token =
        static_cast<std::int32_t>(random(static_cast<std::uint32_t>(i), 0, 0, 0).v[0] % 256);
    if (i < n) tokens[i] = token;
    if (i > 0) labels[i - 1] = token;
  }
  LabelOptions all;
  all.classes = 256;
  return memory_dataset(
      {{"tokens", Shape{128}, std::move(tokens)}, {"label", Shape{128}, std::move(labels)}}, all);
}

std::shared_ptr<const Dataset> rows_for(const std::string& model, std::int64_t rows) {
  if (model == "gpt") return sentences(rows);
  return images(rows, model == "resnet20" ? Shape{32, 32, 3} : Shape{28, 28, 1});
}

}  // namespace belfry::bench
