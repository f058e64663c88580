// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/core/document.h"
#include "belfry/data/data_record.h"
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

TEST_CASE("standardize: columns by their own figures, constant ones 0, only the rows in use") {
  TempFolder dir;
  // Columns: mean 3 and deviation 2; one value; mean 0 and deviation 3e6. The last row is not used.
  const auto file = dir.write("a.csv", "1,0.1,3e6,0\n5,0.1,-3e6,1\n900,7,1,1\n");
  const auto set = csv(file, {.standardize = true, .rows = {.count = 2}});
  CHECK(read_all(*set) == Rows{{-1, 0, 1, 1, 0, -1}, {0, 1}});
  const std::vector<float> scaled =
      read_all(*csv(file, {.scale = 16, .mean = 4, .standardize = true, .rows = {.count = 2}}))
          .values;
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(scaled[i] == Approx(read_all(*set).values[i]).margin(1e-5));
}

TEST_CASE("standardize: small differences of large numbers stay") {
  TempFolder dir;
  // Seconds since 1970 and metres of a map: f32 would round them to the next 128 and 0.5.
  const auto file = dir.write("a.csv", "1700000001,5400000.1,0\n1700000003,5400000.3,1\n");
  const std::vector<float> values = read_all(*csv(file, {.standardize = true})).values;
  const std::vector<float> expected{-1, -1, 1, 1};
  for (std::size_t i = 0; i < 4; ++i) CHECK(values[i] == Approx(expected[i]).epsilon(1e-6));
}

namespace {

std::unique_ptr<DatasetFactory> factory(const std::string& keys) {
  static const Registry registry = builtin();
  Document document = Document::from_text("[data]\n" + keys, "run.toml");
  auto out = registry.table<DatasetEntry>().at("csv", "data set").make();
  Schema schema;
  out->declare(schema);
  document.bind("data", schema);
  document.finish();
  return out;
}

}  // namespace

TEST_CASE("standardize: [test] is brought there by the figures of [data]") {
  TempFolder dir;
  dir.write("train.csv", "1,10,0\n5,30,1\n");
  dir.write("test.csv", "3,20,0\n7,50,1\n");
  dir.write("wide.csv", "3,20,0,0\n");
  const std::string on = "standardize = true\nfile = ";
  const auto train = factory(on + "\"train.csv\"")->open(dir.path(""));
  const auto test = factory(on + "\"test.csv\"")->open_beside(dir.path(""), *train);
  CHECK(read_all(*test).values == std::vector<float>{0, 0, 2, 3});
  const std::string off = "file = \"test.csv\"";
  CHECK_THAT(error_of<ConfigError>([&] { factory(off)->open_beside(dir.path(""), *train); }),
             Contains("the model's columns were standardized: found standardize = false"));
  const auto plain = factory(off)->open(dir.path(""));
  CHECK(read_all(*plain).values == std::vector<float>{3, 20, 7, 50});
  CHECK_THAT(
      data_error([&] { factory(on + "\"wide.csv\"")->open_beside(dir.path(""), *train); }),
      Contains("wide.csv: the file has other columns than [data]: found 3 features, expected 2"));
  CHECK_THAT(error_of<ConfigError>(
                 [&] { factory(on + "\"test.csv\"")->open_beside(dir.path(""), *plain); }),
             Contains("needs it in [data], too"));
}

TEST_CASE("csv: under headers the model's columns are found by name") {
  TempFolder dir;
  dir.write("train.csv", "a,b,c,price\n1,2,3,0\n4,5,6,1\n");
  dir.write("turned.csv", "price,c,b,a\n1,30,20,10\n");
  dir.write("bare.csv", "10,20,30,1\n");
  dir.write("other.csv", "x,y,z,price\n10,20,30,1\n");
  const std::string keys = "label = \"price\"\nfile = ";
  const auto train = factory(keys + "\"train.csv\"")->open(dir.path(""));
  const auto beside = [&](const std::string& text) {
    return read_all(*factory(text)->open_beside(dir.path(""), *train)).values;
  };
  const std::vector<float> row{10, 20, 30};
  CHECK(beside(keys + "\"turned.csv\"") == row);
  CHECK(beside("label = 3\nfile = \"bare.csv\"") == row);
  CHECK(beside("features = [\"x\", \"y\", \"z\"]\n" + keys + "\"other.csv\"") == row);
  CHECK_THAT(data_error([&] { beside(keys + "\"other.csv\""); }),
             Contains("other.csv:1: a column that the model was trained on is not there: found "
                      "'x', 'y', 'z', 'price', expected 'a' among them"));
  CHECK_THAT(
      data_error([&] { beside("features = [\"c\", \"b\", \"a\"]\n" + keys + "\"turned.csv\""); }),
      Contains("`features` are not those of the model: found 'c', 'b', 'a', expected 'a', "
               "'b', 'c'"));
  // Figures of a checkpoint that somebody has changed are no places, and take no memory.
  for (const double place : {-1.0, 2.5e15, std::nan("")}) {
    const auto changed = recorded_data({.rows = 1,
                                        .fields = train->fields(),
                                        .figures = {{"column.a", {place}}, {"column.b", {0}}}});
    CHECK_THAT(
        data_error([&] { factory(keys + "\"other.csv\"")->open_beside(dir.path(""), *changed); }),
        Contains("'b' among them"));
  }
  // An index counts in the columns of [data], whose label the file may lack.
  const auto by_index = factory("label = 0\nfeatures = [1, 2]\nfile = \"train.csv\"");
  const auto middle = by_index->open(dir.path(""));
  dir.write("unlabelled.csv", "b,c\n20,30\n");
  const auto unlabelled = factory("label = 0\nfeatures = [1, 2]\nfile = \"unlabelled.csv\"");
  unlabelled->without_labels();
  CHECK(read_all(*unlabelled->open_beside(dir.path(""), *middle)).values ==
        std::vector<float>{20, 30});
}
