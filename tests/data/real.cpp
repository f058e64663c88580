// SPDX-License-Identifier: MIT
// Real data: counts, means and deviations as published with it.
#include <cmath>

#include "belfry/data/datasets/cifar/cifar.h"
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/data/loader.h"
#include "belfry/tests/data/files.h"
#include "belfry/tests/real_data.h"

using namespace belfry;
using namespace belfry::test;

namespace {

using Counts = std::vector<std::int64_t>;

struct Moments {
  double mean, deviation;
};

Moments moments(const std::vector<float>& values, std::size_t first = 0, std::size_t step = 1) {
  double sum = 0, squares = 0, n = 0;
  for (std::size_t i = first; i < values.size(); i += step, ++n) {
    sum += values[i];
    squares += double{values[i]} * values[i];
  }
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

}  // namespace

TEST_CASE("real: MNIST, complete") {
  const auto images = real_data("mnist/train-images-idx3-ubyte.gz"),
             labels = real_data("mnist/train-labels-idx1-ubyte.gz");
  const auto test_images = real_data("mnist/t10k-images-idx3-ubyte.gz"),
             test_labels = real_data("mnist/t10k-labels-idx1-ubyte.gz");
  if (!images || !labels || !test_images || !test_labels) return;
  const auto train = idx(*images, *labels);
  CHECK(train->describe() == "idx: 60000 rows, image [28, 28, 1] f32, label i32, 10 classes");
  CHECK(label_counts(*train) == Counts{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  const Moments m = moments(read_all(*train).values);
  CHECK(m.mean == Approx(0.1307).margin(5e-5));
  CHECK(m.deviation == Approx(0.3081).margin(5e-5));
  const auto held =
      idx(*images, *labels, {.mean = 0.1307, .stddev = 0.3081, .rows = {.first = 55000}});
  CHECK(held->rows() == 5000);
  const Rows expected = read_rows(*train, {55000, 59999}), got = read_rows(*held, {0, 4999});
  CHECK(got.labels == expected.labels);
  for (std::size_t i = 0; i < got.values.size(); ++i)
    REQUIRE(got.values[i] == Approx((expected.values[i] - 0.1307) / 0.3081).margin(1e-5));
  const auto test = idx(*test_images, *test_labels);
  CHECK(label_counts(*test) == Counts{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  CHECK_THAT(data_error([&] { idx(*images, *test_labels); }),
             Contains("60000 images") && Contains("10000 labels"));
  CHECK_THAT(data_error([&] { idx(*test_labels, *test_images); }), Contains("an images file"));
}

TEST_CASE("real: MNIST passes the loader once an epoch") {
  const auto images = real_data("mnist/t10k-images-idx3-ubyte.gz"),
             labels = real_data("mnist/t10k-labels-idx1-ubyte.gz");
  if (!images || !labels) return;
  Context context({.towers = "cpu:1", .seed = 4});
  Loader loader(context, idx(*images, *labels), {.batch = 128, .epochs = 2});
  std::vector<Counts> counts(2, Counts(10));
  for (const Batch& b : loader)
    for (std::int64_t r = 0; r < b.rows; ++r)
      ++counts[static_cast<std::size_t>(b.epoch)]
              [static_cast<std::size_t>(b["label"].data<std::int32_t>()[r])];
  for (const Counts& c : counts)
    CHECK(c == Counts{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
}

TEST_CASE("real: Fashion-MNIST from Debian") {
  const auto images = fashion_mnist("train-images-idx3-ubyte.gz"),
             labels = fashion_mnist("train-labels-idx1-ubyte.gz");
  if (!images || !labels) return;
  const auto train = idx(*images, *labels, {.labels = {.classes = 10}});
  CHECK(train->rows() == 60000);
  CHECK(label_counts(*train) == Counts(10, 6000));
}

TEST_CASE("real: digits8x8 from CSV") {
  const auto train_file = real_data("digits8x8/optdigits-train.csv.gz"),
             test_file = real_data("digits8x8/digits.csv.gz");
  if (!train_file || !test_file) return;
  const CsvOptions options{.shape = {8, 8, 1}, .scale = 16, .labels = {.classes = 10}};
  const auto train = csv(*train_file, options), test = csv(*test_file, options);
  CHECK(train->describe() == "csv: 3823 rows, image [8, 8, 1] f32, label i32, 10 classes");
  CHECK(label_counts(*train) == Counts{376, 389, 380, 389, 387, 376, 377, 387, 380, 382});
  CHECK(label_counts(*test) == Counts{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  const Rows first = read_rows(*test, {0});
  CHECK(std::vector<float>(first.values.begin(), first.values.begin() + 8) ==
        std::vector<float>{0, 0, 5 / 16.f, 13 / 16.f, 9 / 16.f, 1 / 16.f, 0, 0});
  CHECK(first.labels[0] == 0);
}

TEST_CASE("real: CIFAR-10, the part that is here") {
  const auto train_file = real_data("cifar10/data_batch_1_first4000.bin.gz"),
             test_file = real_data("cifar10/test_batch_first1000.bin.gz");
  if (!train_file || !test_file) return;
  const auto train = cifar({*train_file});
  CHECK(train->describe() == "cifar10: 4000 rows, image [32, 32, 3] f32, label i32, 10 classes");
  CHECK(label_counts(*train) == Counts{396, 366, 420, 384, 422, 393, 414, 385, 407, 413});
  CHECK(label_counts(*cifar({*test_file})) ==
        Counts{103, 89, 100, 103, 90, 86, 112, 102, 106, 109});
  const std::vector<float> values = read_all(*train).values;
  const double means[] = {0.4916, 0.4818, 0.4447}, deviations[] = {0.2471, 0.2440, 0.2625};
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(moments(values, c, 3).mean == Approx(means[c]).margin(6e-5));
    CHECK(moments(values, c, 3).deviation == Approx(deviations[c]).margin(6e-5));
  }
  CHECK_THAT(data_error([&] { cifar({*train_file}, {.kind = "cifar100", .label = "fine"}); }),
             Contains("kind = \"cifar10\""));
}
