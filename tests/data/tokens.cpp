// SPDX-License-Identifier: MIT
// Text and token files: rows, epochs, parts, and everything that can be wrong with a file.
#include "belfry/data/datasets/tokens/tokens.h"

#include <set>

#include "belfry/data/datasets/text/text.h"
#include "belfry/data/loader.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

using Row = std::vector<std::int32_t>;

struct AllRows {
  std::vector<Row> tokens, labels;
};

AllRows read_all(const Dataset& set, const ReadEpoch& epoch) {
  const auto context = static_cast<std::size_t>(set.fields()[0].shape.size());
  AllRows out;
  for (std::int64_t r = 0; r < set.rows(); ++r) {
    Row x(context), y(context);
    void* buffers[] = {x.data(), y.data()};
    set.read_epoch(std::vector<std::int64_t>{r}, epoch, buffers);
    out.tokens.push_back(x), out.labels.push_back(y);
  }
  return out;
}

// Bytes 0, 1, 2, ...: a position can be told from its value.
std::string counting(int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += static_cast<char>(i);
  return out;
}

std::string u16(const std::vector<int>& values) {
  std::string out;
  for (const int v : values) out += {static_cast<char>(v), static_cast<char>(v >> 8)};
  return out;
}

// Field by field: GCC 12 takes the strings of nested temporaries for uninitialised.
WindowOptions windows(std::int64_t context, std::int64_t first = 0, std::int64_t count = -1,
                      const std::string& part = "all", double holdout = 0.1) {
  WindowOptions o;
  o.context = context, o.first = first, o.count = count, o.part = part, o.holdout = holdout;
  return o;
}

TokensOptions token_options(const WindowOptions& w, const std::string& dtype = "u16",
                            std::int64_t vocabulary = 0) {
  TokensOptions o;
  o.windows = w, o.dtype = dtype, o.vocabulary = vocabulary;
  return o;
}

}  // namespace

TEST_CASE("text: rows of bytes with the next byte as the label") {
  const TempFolder folder;
  const auto set =
      text({folder.write("a", "hello "), folder.write("b", gzip("world"))}, windows(3));
  REQUIRE(set->rows() == 3);  // 11 bytes: 10 have a next one
  CHECK(set->classes() == 256);
  CHECK(set->label_unit() == "byte");
  CHECK(set->describe() == "text: 11 bytes, 3 rows, tokens [3] i32, label [3] i32, 256 classes");
  const AllRows rows = read_all(*set, {});
  CHECK(rows.tokens == std::vector<Row>{{'h', 'e', 'l'}, {'l', 'o', ' '}, {'w', 'o', 'r'}});
  CHECK(rows.labels == std::vector<Row>{{'e', 'l', 'l'}, {'o', ' ', 'w'}, {'o', 'r', 'l'}});
}

TEST_CASE("text: rows of a shuffled epoch do not overlap, and begin elsewhere in the next one") {
  const TempFolder folder;
  const auto set = text({folder.write("a", counting(103))}, windows(8));
  REQUIRE(set->rows() == 12);
  std::set<std::int32_t> starts;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const AllRows rows = read_all(*set, {.seed = 3, .number = epoch, .shuffled = true});
    std::set<std::int32_t> predicted;
    for (std::size_t r = 0; r < rows.labels.size(); ++r)
      for (std::size_t i = 0; i < 8; ++i) {
        CHECK(rows.labels[r][i] == (rows.tokens[r][i] + 1) % 103);
        CHECK(predicted.insert(rows.labels[r][i]).second);
      }
    starts.insert(rows.tokens[0][0]);
    CHECK(rows.tokens == read_all(*set, {.seed = 3, .number = epoch, .shuffled = true}).tokens);
    CHECK(read_all(*set, {.seed = 3, .number = epoch}).tokens[0][0] == 0);  // not shuffled
  }
  CHECK(starts.size() == 8);  // each offset of a row of 8
}

TEST_CASE("text: a loader's epochs differ, and not by the number of towers") {
  const TempFolder folder;
  const auto set = text({folder.write("a", counting(200))}, windows(5));
  std::vector<std::vector<double>> seen[2];
  for (const int towers : {1, 3}) {
    Context context({.towers = "cpu:" + std::to_string(towers), .seed = 9});
    Loader loader(context, set, {.batch = 39, .epochs = 3});
    Batch batch;
    while (loader.next(batch)) seen[towers / 3].push_back(batch["tokens"].to_vector());
  }
  REQUIRE(seen[0].size() == 3);
  CHECK(seen[0] == seen[1]);
  std::set<double> firsts[3];
  for (std::size_t e = 0; e < 3; ++e)
    for (std::size_t r = 0; r < 39; ++r) firsts[e].insert(seen[0][e][r * 5]);
  CHECK((firsts[0] != firsts[1] || firsts[1] != firsts[2]));
}

TEST_CASE("text: first, count, and the part that is held out") {
  const TempFolder folder;
  const std::string file = folder.write("a", counting(101));
  const auto starts = [&](const WindowOptions& o) {
    const AllRows rows = read_all(*text({file}, o), {});
    return std::pair{rows.tokens.front().front(), rows.labels.back().back()};
  };
  CHECK(starts(windows(10)) == std::pair{0, 100});
  CHECK(starts(windows(10, 20, 31)) == std::pair{20, 50});
  CHECK(starts(windows(10, 0, -1, "train", 0.2)) == std::pair{0, 80});
  CHECK(starts(windows(10, 0, -1, "validation", 0.2)) == std::pair{81, 91});
  CHECK(starts(windows(10, 50, -1, "train", 0.5)) == std::pair{50, 70});
}

TEST_CASE("tokens: u16 and u32, little endian") {
  const TempFolder folder;
  const auto set =
      tokens({folder.write("a", u16({1, 258, 3, 40000, 5}))}, token_options(windows(2)));
  CHECK(set->classes() == 40001);
  CHECK(set->label_unit() == "token");
  CHECK(read_all(*set, {}).tokens == std::vector<Row>{{1, 258}, {3, 40000}});
  std::string wide;
  for (const std::uint32_t v : {7u, 70000u, 2u}) wide += little_endian(v);
  const auto more = tokens({folder.write("b", wide)}, token_options(windows(2), "u32", 100000));
  CHECK(more->classes() == 100000);
  CHECK(read_all(*more, {}).labels == std::vector<Row>{{70000, 2}});
}

TEST_CASE("tokens: numbers whose bytes begin as other files do are numbers") {
  const TempFolder folder;
  for (const int first : {0x3c, 0x213c, 0x8b1f}) {  // "<", "<!", gzip's first two bytes
    const auto set =
        tokens({folder.write("a.gz", gzip(u16({first, 1, 2})))}, token_options(windows(2)));
    CHECK(read_all(*set, {}).tokens == std::vector<Row>{{first, 1}});
  }
}

TEST_CASE("tokens and text: wrong files are DataErrors that say what to do") {
  const TempFolder folder;
  const auto fault = [&](const std::string& bytes, const TokensOptions& o, const std::string& a,
                         const std::string& b) {
    const std::string file = folder.write("x", bytes);
    CHECK_THROWS_AS(tokens({file}, o), DataError);
    CHECK_THROWS_WITH(tokens({file}, o), Contains(a) && Contains(b) && Contains(file));
  };
  fault(u16({1, 2, 3}) + "x", token_options(windows(1)), "7 bytes", "multiple of 2");
  fault(u16({1, 2, 300}), token_options(windows(1), "u16", 256), "token 300 at 2", "[0, 256)");
  fault(u16({1, 2}), token_options(windows(2)), "2 tokens", "at least 3");
  fault("", token_options(windows(2)), "0 tokens", "at least 3");
  fault("\x93NUMPY" + counting(58), token_options(windows(2)), "a npy array", "without a header");
  fault(little_endian(5) + little_endian(0xffffffffu), token_options(windows(1), "u32", 0),
        "token 4294967295", "dtype");
  fault(u16({1, 2, 3, 4}), token_options(windows(1, 2, 3)), "first 2, count 3", "4 tokens");
  CHECK_THROWS_WITH(tokens({folder.path("none")}, token_options(windows(1))), Contains("none"));
  CHECK_THROWS_AS(text({folder.path("none")}), DataError);
  CHECK_THROWS_WITH(text({folder.write("t", "abc")}), Contains("3 bytes") && Contains("129"));
  CHECK_THROWS_AS(text({folder.write("t", "abcdef")}, windows(0)), ConfigError);
  CHECK_THROWS_AS(text({folder.write("t", "abcdef")}, windows(2, 0, -1, "half")), ConfigError);
  CHECK_THROWS_AS(tokens({folder.write("t", "abcdef")}, token_options(windows(1), "u8", 0)),
                  ConfigError);
  CHECK_THAT(text({folder.write("z", "PK\x03\x04 and more")}, windows(2))->warning(),
             Contains("a zip archive"));
}
