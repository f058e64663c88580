// SPDX-License-Identifier: MIT
#include "belfry/data/loader.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "belfry/data/memory.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

using Ids = std::vector<std::int64_t>;

std::shared_ptr<const Dataset> numbered(std::int64_t rows) {
  std::vector<float> ids(static_cast<std::size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0.f);
  return memory_dataset(ids, Shape{1}, std::vector<std::int32_t>(ids.size(), 0));
}

Ids ids_of(const Batch& batch) {
  const std::vector<double> values = batch["image"].to_vector();
  return Ids(values.begin(), values.end());
}

Ids rest_of(Loader& loader) {
  Ids out;
  for (const Batch& b : loader)
    for (const std::int64_t id : ids_of(b)) out.push_back(id);
  return out;
}

// Throws when asked for row `bad`.
class Faulty : public Dataset {
 public:
  Faulty(std::int64_t rows, std::int64_t bad) : inner_(numbered(rows)), bad_(bad) {}
  std::int64_t rows() const override { return inner_->rows(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    for (const std::int64_t r : rows)
      if (r == bad_ && broken) throw DataError("row " + std::to_string(r) + " cannot be read");
    inner_->read(rows, out);
  }
  std::string describe() const override { return "faulty"; }
  std::atomic<bool> broken{true};

 private:
  std::shared_ptr<const Dataset> inner_;
  std::int64_t bad_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("loader: each row once an epoch in the sampler's order, the same for any prefetch") {
  Context context({.towers = "cpu:1", .seed = 3});
  Ids expected;
  for (std::int64_t e = 0; e < 3; ++e)
    for (const std::int64_t id : epoch_order(23, 3, e, true)) expected.push_back(id);
  for (const std::int64_t prefetch : {0, 1, 2, 7, 64}) {
    CAPTURE(prefetch);
    Loader loader(context, numbered(23), {.batch = 5, .epochs = 3, .prefetch = prefetch});
    CHECK(rest_of(loader) == expected);
    CHECK(loader.position() == 69);
    Batch batch;
    CHECK_FALSE(loader.next(batch));
    CHECK_FALSE(loader.next(batch));
  }
}

TEST_CASE("loader: the short last batch is given; counts and epochs are those of the stream") {
  Context context({.towers = "cpu:1"});
  Loader loader(context, numbered(7), {.batch = 3, .epochs = 2, .shuffle = false});
  CHECK(loader.rows_per_epoch() == 7);
  CHECK(loader.batches_per_epoch() == 3);
  Batch b;
  const std::vector<Ids> expected{{0, 1, 2}, {3, 4, 5}, {6}, {0, 1, 2}, {3, 4, 5}, {6}};
  const Ids positions{3, 6, 7, 10, 13, 14};
  for (std::size_t i = 0; i < 6; ++i) {
    REQUIRE(loader.next(b));
    CHECK(ids_of(b) == expected[i]);
    CHECK(b.rows == static_cast<std::int64_t>(expected[i].size()));
    CHECK(b["image"].shape() == Shape{b.rows, 1});
    CHECK(b["label"].shape() == Shape{b.rows});
    CHECK(b["label"].dtype() == DType::i32);
    CHECK(b.rows_per_epoch == 7);
    CHECK(b.full_rows == 3);
    CHECK(b.slice(0, 1).full_rows == 3);
    CHECK(b.epoch == (i < 3 ? 0 : 1));
    CHECK(b.first_row == 0);
    CHECK(loader.position() == positions[i]);
  }
  CHECK_FALSE(loader.next(b));
}

TEST_CASE("loader: a loop after the last batch says why it is empty, once") {
  std::vector<std::string> lines;
  const Log log([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  Context context({.towers = "cpu:1", .log = log});
  Loader loader(context, numbered(7), {.batch = 3, .epochs = 2, .shuffle = false});
  lines.clear();
  CHECK(rest_of(loader).size() == 14);
  CHECK(lines.empty());
  CHECK(rest_of(loader).empty());
  CHECK(rest_of(loader).empty());
  CHECK(lines == std::vector<std::string>{"this loop has no batches: the loader has handed out all "
                                          "of its 2 epochs; seek(0) begins again"});
  loader.seek(0);
  CHECK(rest_of(loader).size() == 14);
}

TEST_CASE("loader: drop_last leaves the tail out, counts it in the position and says so once") {
  std::vector<std::string> lines;
  const Log log([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  Context context({.towers = "cpu:1", .log = log});
  lines.clear();
  Loader loader(context, numbered(7),
                {.batch = 3, .epochs = 2, .shuffle = false, .drop_last = true});
  CHECK(lines ==
        std::vector<std::string>{"drop_last leaves out 1 of the 7 rows of each epoch (batch 3)"});
  CHECK(loader.rows_per_epoch() == 6);
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(rest_of(loader) == Ids{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(loader.position() == 14);
  loader.seek(6);  // only the dropped row is left of the epoch
  CHECK(loader.position() == 7);
  CHECK(rest_of(loader) == Ids{0, 1, 2, 3, 4, 5});
}

TEST_CASE("B34: fewer rows than a batch with drop_last, and no rows at all, fail before training") {
  Context context({.towers = "cpu:2"});
  const std::string text =
      data_error([&] { Loader(context, numbered(3), {.batch = 8, .drop_last = true}); });
  CHECK_THAT(text, Contains("found 3 rows") && Contains("at least 8"));
  Loader loader(context, numbered(3), {.batch = 8, .epochs = 2, .shuffle = false});
  CHECK(loader.batches_per_epoch() == 1);
  Batch b;
  REQUIRE(loader.next(b));
  CHECK(ids_of(b) == Ids{0, 1, 2});
  REQUIRE(loader.next(b));
  CHECK(b.epoch == 1);
  CHECK_FALSE(loader.next(b));
}

TEST_CASE("loader: after seek the rows are those of an uninterrupted run") {
  Context context({.towers = "cpu:1", .seed = 11});
  for (const std::int64_t prefetch : {0, 3}) {
    Loader whole(context, numbered(10), {.batch = 4, .epochs = 3, .prefetch = prefetch});
    const Ids all = rest_of(whole);
    REQUIRE(all.size() == 30);
    for (const std::int64_t at : {0, 4, 8, 10, 14, 18, 20, 28, 30}) {
      CAPTURE(prefetch, at);
      Loader resumed(context, numbered(10), {.batch = 4, .epochs = 3, .prefetch = prefetch});
      Batch b;
      REQUIRE(resumed.next(b));  // seeking works in the middle of a run, too
      resumed.seek(at);
      CHECK(resumed.position() == at);
      CHECK(rest_of(resumed) == Ids(all.begin() + at, all.end()));
    }
    CHECK_THAT(data_error([&] { whole.seek(31); }), Contains("row 31") && Contains("[0, 30]"));
    CHECK_THAT(data_error([&] { whole.seek(-1); }), Contains("row -1"));
    CHECK_THAT(data_error([&] { whole.seek(13); }),
               Contains("row 3 of epoch 1") && Contains("a multiple of the batch, 4"));
    CHECK(whole.position() == 30);
  }
}

TEST_CASE(
    "loader: batches keep their values while any tensor of them lives, also after the loader") {
  Context context({.towers = "cpu:1"});
  std::vector<Batch> kept;
  Tensor last;
  {
    Loader loader(context, numbered(40), {.batch = 4, .shuffle = false, .prefetch = 1});
    for (Batch b; loader.next(b);) {
      kept.push_back(b);
      last = b["image"];
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto first = static_cast<std::int64_t>(4 * i);
    CHECK(ids_of(kept[i]) == Ids{first, first + 1, first + 2, first + 3});
  }
  kept.clear();
  CHECK(last.to_vector() == std::vector<double>{36, 37, 38, 39});
}

TEST_CASE("loader: buffers are reused, so a long run takes no new memory") {
  Context context({.towers = "cpu:1"});
  const auto requests = [&] {
    return context.device(0).arena(MemoryKind::pinned).stats().system_requests;
  };
  for (const std::int64_t prefetch : {0, 2}) {
    const std::size_t before = requests();
    Loader loader(context, numbered(64), {.batch = 8, .epochs = 50, .prefetch = prefetch});
    Batch b;
    while (loader.next(b)) CHECK(b.rows == 8);
    // Of 400 batches at most these live at once: prefetched, being read, handed over, in use.
    const auto live = static_cast<std::size_t>(prefetch + 3);
    CHECK(requests() - before <= live * loader.dataset().fields().size());
  }
  CHECK(context.device(0).arena(MemoryKind::pinned).stats().live_bytes == 0);
}

TEST_CASE(
    "loader: an error while reading comes out of next() at its batch, and next() can be retried") {
  Context context({.towers = "cpu:1"});
  for (const std::int64_t prefetch : {0, 1, 4}) {
    CAPTURE(prefetch);
    auto set = std::make_shared<Faulty>(12, 7);
    Loader loader(context, set, {.batch = 3, .shuffle = false, .prefetch = prefetch});
    Batch b;
    REQUIRE(loader.next(b));
    REQUIRE(loader.next(b));
    for (int again = 0; again < 2; ++again)
      CHECK(data_error([&] { loader.next(b); }) == "row 7 cannot be read");
    CHECK(loader.position() == 6);
    set->broken = false;
    REQUIRE(loader.next(b));
    CHECK(ids_of(b) == Ids{6, 7, 8});
    CHECK(rest_of(loader) == Ids{9, 10, 11});
  }
}

TEST_CASE("loader: destruction with a full queue, in a delay and before use ends promptly") {
  Context context({.towers = "cpu:1"});
  const auto start = std::chrono::steady_clock::now();
  auto delayed = start;
  { Loader unused(context, numbered(100), {.batch = 1}); }
  {
    Loader full(context, numbered(100), {.batch = 1, .prefetch = 4});
    Batch b;
    REQUIRE(full.next(b));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  {
    auto set = std::make_shared<Faulty>(10, 1);  // the error is never asked for
    Loader failed(context, set, {.batch = 1, .shuffle = false, .prefetch = 4});
    Batch b;
    REQUIRE(failed.next(b));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  {
    Loader slow(context, numbered(10), {.batch = 1, .prefetch = 2, .delay_seconds = 1});
    Batch b;
    REQUIRE(slow.next(b));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    delayed = std::chrono::steady_clock::now();
  }
  CHECK(seconds_since(delayed) < 0.5);
  for (int i = 0; i < 200; ++i) {
    Loader brief(context, numbered(10), {.batch = 1, .prefetch = 2});
    Batch b;
    REQUIRE(brief.next(b));
  }
  CHECK(seconds_since(start) < 5);
}

TEST_CASE("loader: wait_seconds shows an injected delay of 20 ms, and prefetching hides it") {
  Context context({.towers = "cpu:1"});
  for (const std::int64_t prefetch : {0, 2}) {
    CAPTURE(prefetch);
    double waited = 0;
    for (int attempt = 0; attempt < 5; ++attempt) {  // a busy machine may add to it
      Loader loader(context, numbered(20),
                    {.batch = 1, .prefetch = prefetch, .delay_seconds = 0.02});
      waited = 0;
      for (const Batch& b : loader) waited += b.wait_seconds;
      REQUIRE(waited >= 0.398);
      if (waited <= 0.44) break;
    }
    CHECK(waited <= 0.44);  // 20 batches x 20 ms, within 10 %
  }
  double waited = 1;
  for (int attempt = 0; attempt < 5 && waited > 0.03; ++attempt) {
    Loader loader(context, numbered(10), {.batch = 1, .prefetch = 2, .delay_seconds = 0.02});
    waited = 0;
    for (const Batch& b : loader) {
      if (loader.position() > 1) waited += b.wait_seconds;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
  }
  CHECK(waited <= 0.03);
}

TEST_CASE("loader: options out of range are ConfigErrors, from code as well") {
  Context context({.towers = "cpu:1"});
  const auto bad = [&](LoaderOptions options) {
    return error_of<ConfigError>([&] { Loader(context, numbered(4), options); });
  };
  CHECK_THAT(bad({.batch = 0}), Contains("batch") && Contains("found 0"));
  CHECK_THAT(bad({.batch = -5}), Contains("batch"));
  CHECK_THAT(bad({.epochs = -1}), Contains("epochs"));
  CHECK_THAT(bad({.prefetch = 65}), Contains("prefetch") && Contains("found 65"));
  CHECK_THAT(bad({.prefetch = -1}), Contains("prefetch"));
  CHECK_THAT(bad({.delay_seconds = -1}), Contains("delay_seconds"));
  CHECK_THAT(bad({.delay_seconds = std::numeric_limits<double>::quiet_NaN()}),
             Contains("delay_seconds"));
  CHECK_THAT(error_of<ConfigError>([&] { Loader(context, nullptr, {}); }),
             Contains("needs a data set"));
  Loader none(context, numbered(4), {.epochs = 0});
  Batch b;
  CHECK_FALSE(none.next(b));
}

TEST_CASE("batch: slices move first_row along; unknown fields and rows are named") {
  Context context({.towers = "cpu:1"});
  Loader loader(context, numbered(6), {.batch = 6, .shuffle = false});
  Batch b;
  REQUIRE(loader.next(b));
  CHECK(b.names() == std::vector<std::string>{"image", "label"});
  const Batch middle = b.slice(2, 3), inner = middle.slice(1, 1), none = b.slice(6, 0);
  CHECK(ids_of(middle) == Ids{2, 3, 4});
  CHECK(middle.first_row == 2);
  CHECK(middle.rows_per_epoch == 6);
  CHECK(ids_of(inner) == Ids{3});
  CHECK(inner.first_row == 3);
  CHECK(none.rows == 0);
  CHECK(none["image"].shape() == Shape{0, 1});
  CHECK(inner["image"].raw() == b["image"].data<float>() + 3);  // a view
  CHECK_THAT(data_error([&] { b["pixels"]; }),
             Contains("'pixels'") && Contains("'image', 'label'"));
  CHECK_THAT(data_error([&] { b.slice(4, 3); }), Contains("[0, 6)"));
  CHECK_THAT(data_error([&] { b.add("image", b["label"]); }), Contains("already"));
}
