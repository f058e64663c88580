// SPDX-License-Identifier: MIT
// Messages about data files that are right in themselves but not what the options say.
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

TEST_CASE("csv: other delimiters, decimal commas and class names are recognised") {
  TempFolder dir;
  const auto fault = [&](const std::string& text, const CsvOptions& options = {}) {
    return data_error([&] { csv(dir.write("t.csv", text), options); });
  };
  const std::string semicolon = "set delimiter = \";\"";
  CHECK_THAT(fault("a;b;c\n1;2;0\n"), Contains("t.csv:1: ") && Contains(semicolon));
  CHECK_THAT(fault("1,5;2,5;0\n"), Contains(semicolon));
  CHECK_THAT(fault("a,b\n1;2,0\n"), Contains("t.csv:2: ") && Contains(semicolon));
  CHECK_THAT(fault("a\tb\n1\t2\n"), Contains("set delimiter = \"tab\""));
  CHECK_THAT(fault("a,b\n1,2\n", {.delimiter = ";"}), Contains("set delimiter = \",\""));
  CHECK_THAT(fault("a;b\n1,5;0\n", {.delimiter = ";"}),
             Contains("'1,5'") && Contains("written with a point"));
  CHECK_THAT(fault("a,b\n1,cat\n"),
             Contains("t.csv:2: ") && Contains("'cat'") && Contains("set names = [\"cat\"]"));
}

TEST_CASE("labels too large to be classes are refused unless classes says so") {
  TempFolder dir;
  const std::string file = dir.write("t.csv", "x,y\n1,0\n2,2000000\n3,1\n");
  CHECK_THAT(data_error([&] { csv(file); }), Contains("t.csv:3: ") &&
                                                 Contains("label 2000000 in row 1") &&
                                                 Contains("set `classes` if that is meant"));
  CHECK(csv(file, {.labels = {.classes = 2000001}})->classes() == 2000001);
}

TEST_CASE("classes without rows are named, with the place of the largest label") {
  TempFolder dir;
  const auto warning = [&](const std::string& text, const LabelOptions& labels = {}) {
    return csv(dir.write("t.csv", text), {.labels = labels})->warning();
  };
  const std::string at = dir.path("t.csv");
  CHECK(warning("1,0\n1,1\n1,2\n").empty());
  CHECK(warning("1,0\n1,1\n1,2\n1,7\n") == "classes 3..6 have no rows; largest label 7 at " + at +
                                               ":4; set `classes` if that is "
                                               "meant");
  CHECK(warning("1,0\n1,4\n1,1\n1,2\n") ==
        "class 3 has no rows; largest label 4 at " + at + ":2; set `classes` if that is meant");
  CHECK(warning("1,1\n1,2\n1,3\n") ==
        at + ": class 0 has no rows; labels look like 1..3, they should start at 0");
  CHECK(warning("1,0\n1,7\n", {.classes = 8}).empty());
  CHECK(warning("1,0\n1,1\n1,9\n", {.ignore = 9}).empty());
  std::string sparse;
  for (int i = 0; i < 20; ++i) sparse += "1," + std::to_string(2 * i) + "\n";
  CHECK_THAT(warning(sparse), Contains("classes 1, 3, 5, 7, 9, 11, 13, 15, ... have no rows"));
  dir.write("i", idx_images(2, 1, 1, "ab"));
  dir.write("l", idx_labels(2, std::string("\x00\x02", 2)));
  CHECK(idx(dir.path("i"), dir.path("l"))->warning() ==
        "class 1 has no rows; largest label 2 at " + dir.path("l") +
            " row 1; set `classes` if that is meant");
}
