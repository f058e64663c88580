// SPDX-License-Identifier: MIT
// A data set that does not answer.
#include <atomic>
#include <chrono>
#include <numeric>

#include "belfry/core/delay.h"
#include "belfry/core/error.h"
#include "belfry/data/loader.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

// Stops answering at row `from` for as long as `hangs`.
class Hanging : public Dataset {
 public:
  explicit Hanging(std::int64_t from) : from_(from) {
    std::vector<float> ids(40);
    std::iota(ids.begin(), ids.end(), 0.f);
    inner_ = memory_dataset(ids, Shape{1}, std::vector<std::int32_t>(40, 0));
  }
  std::int64_t rows() const override { return 40; }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    while (hangs && rows[0] >= from_) delay(0.002);
    inner_->read(rows, out);
    ++reads;
  }
  std::string describe() const override { return "hanging"; }
  std::atomic<bool> hangs{true};
  mutable std::atomic<int> reads{0};

 private:
  std::shared_ptr<const Dataset> inner_;
  std::int64_t from_;
};

LoaderOptions options(double seconds) {
  return {.batch = 8, .epochs = 2, .shuffle = false, .timeout_seconds = seconds};
}

}  // namespace

TEST_CASE("loader: a read that hangs is a DataError with its rows; next() may be called again") {
  Context context({.towers = "cpu:1"});
  const auto data = std::make_shared<Hanging>(16);
  Loader loader(context, data, options(0.2));
  Batch batch;
  for (int i = 0; i < 2; ++i) REQUIRE(loader.next(batch));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH(loader.next(batch), Contains("does not answer") && Contains("after 0.2 s") &&
                                              Contains("batch 3 of epoch 1") &&
                                              Contains("rows 16 to 23") && Contains("position 16"));
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  CHECK(waited.count() > 0.38);
  CHECK(waited.count() < 5);
  data->hangs = false;
  while (data->reads < 3) delay(0.001);
  REQUIRE(loader.next(batch));
  CHECK(batch["image"].to_vector()[0] == 16);
}

TEST_CASE(
    "loader: destroyed in a read that hangs, it gives the thread up; the context may go too") {
  const auto data = std::make_shared<Hanging>(8);
  const auto start = std::chrono::steady_clock::now();
  {
    Context context({.towers = "cpu:1"});
    Loader loader(context, data, options(0.1)), moved(context, data, options(0.1));
    Batch batch;
    REQUIRE(loader.next(batch));
    CHECK_THROWS_AS(loader.next(batch), DataError);
    REQUIRE(moved.next(batch));
    delay(0.05);  // its thread is in the next read
    CHECK_THROWS_AS(moved.seek(0), DataError);
    CHECK_THROWS_WITH(moved.next(batch), Contains("given up"));
    batch = {};
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  CHECK(waited.count() < 5);
  data->hangs = false;  // the reads end now, long after context and loaders
  while (data->reads < 4) delay(0.001);
  delay(0.05);
}

TEST_CASE("loader: a time-out needs prefetching") {
  Context context({.towers = "cpu:1"});
  LoaderOptions wrong = options(1);
  wrong.prefetch = 0;
  CHECK_THROWS_WITH(Loader(context, std::make_shared<Hanging>(99), wrong),
                    Contains("prefetch >= 1"));
}
