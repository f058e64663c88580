// SPDX-License-Identifier: MIT
#include "belfry/core/document.h"
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

TEST_CASE("standardize: [test] is brought there by the figures of [data]") {
  TempFolder dir;
  dir.write("train.csv", "1,10,0\n5,30,1\n");
  dir.write("test.csv", "3,20,0\n7,50,1\n");
  dir.write("wide.csv", "3,20,0,0\n");
  const Registry registry = builtin();
  const auto factory = [&](const std::string& keys) {
    Document document = Document::from_text("[data]\n" + keys, "run.toml");
    auto out = registry.table<DatasetEntry>().at("csv", "data set").make();
    Schema schema;
    out->declare(schema);
    document.bind("data", schema);
    document.finish();
    return out;
  };
  const std::string on = "standardize = true\nfile = ";
  const auto train = factory(on + "\"train.csv\"")->open(dir.path(""));
  const auto test = factory(on + "\"test.csv\"")->open_beside(dir.path(""), *train);
  CHECK(read_all(*test).values == std::vector<float>{0, 0, 2, 3});
  const auto plain = factory("file = \"test.csv\"")->open_beside(dir.path(""), *train);
  CHECK(read_all(*plain).values == std::vector<float>{3, 20, 7, 50});
  CHECK_THAT(
      data_error([&] { factory(on + "\"wide.csv\"")->open_beside(dir.path(""), *train); }),
      Contains("wide.csv: the file has other columns than [data]: found 3 features, expected 2"));
  CHECK_THAT(error_of<ConfigError>(
                 [&] { factory(on + "\"test.csv\"")->open_beside(dir.path(""), *plain); }),
             Contains("needs it in [data], too"));
}
