// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/data/memory.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

TEST_CASE("B26: a label outside the classes is a DataError with file, row, label and range") {
  TempFolder dir;
  const auto load = [&](const std::string& label, LabelOptions options = {.classes = 10}) {
    return csv(dir.write("t.csv", "x,y\n1,0\n2,9\n3," + label + "\n"), {.labels = options});
  };
  for (const std::string label : {"10", "-1", "255"}) {
    CAPTURE(label);
    const std::string text = data_error([&] { load(label); });
    CHECK_THAT(text, Contains("t.csv:4: ") && Contains("label " + label + " in row 2") &&
                         Contains("[0,10)"));
  }
  CHECK_THAT(data_error([&] { load("2.5"); }),
             Contains("t.csv:4: ") && Contains("label '2.5' in row 2") && Contains("[0,10)"));
  CHECK(load("255", {.classes = 10, .ignore = 255})->classes() == 10);
  CHECK(read_all(*load("-1", {.classes = 10, .ignore = -1})).labels[2] == -1);
  CHECK_THAT(data_error([&] { load("-2", {.classes = 10, .ignore = -1}); }), Contains("label -2"));
  CHECK_THAT(data_error([&] { load("-1", {}); }), Contains("label -1 in row 2"));
  CHECK(load("12", {})->classes() == 13);
}

TEST_CASE("B26: labels 1..10 for 10 classes get the hint that labels start at 0") {
  TempFolder dir;
  std::string text, bytes;
  for (int label = 1; label <= 10; ++label) {
    text += "0.5," + std::to_string(label) + "\n";
    bytes += static_cast<char>(label);
  }
  const auto file = dir.write("t.csv", text);
  CHECK_THAT(
      data_error([&] { csv(file, {.labels = {.classes = 10}}); }),
      Contains("t.csv:10: ") && Contains("label 10 in row 9") && Contains("labels start at 0"));
  const auto images = dir.write("i", idx_images(10, 1, 1, std::string(10, 'x'))),
             labels = dir.write("l", idx_labels(10, bytes));
  CHECK_THAT(data_error([&] { idx(images, labels, {.labels = {.classes = 10}}); }),
             Contains("/l: ") && Contains("label 10 in row 9") && Contains("[0,10)") &&
                 Contains("labels start at 0"));
  CHECK_THAT(idx(images, labels)->describe(), Contains("11 classes (smallest label 1)"));
  CHECK_THAT(data_error([] {
               memory_dataset({1, 2, 3}, Shape{1}, {0, 1, 2}, 2);
             }),
             Contains("label 2 in row 2") && Contains("[0,2)"));
}

TEST_CASE("memory: fields keep type and value; mistakes are named") {
  std::vector<MemoryField> fields;
  fields.push_back({"x", Shape{2}, std::vector<double>{1, 2, 3, 4}});
  fields.push_back({"id", Shape{}, std::vector<std::int64_t>{7, 5000000000}});
  fields.push_back({"byte", Shape{1}, std::vector<std::uint8_t>{9, 8}});
  const auto set = memory_dataset(fields);
  CHECK(set->rows() == 2);
  CHECK(set->classes() == 0);
  CHECK(set->fields()[0].dtype == DType::f64);
  CHECK(set->describe() == "memory: 2 rows, x [2] f64, id i64, byte [1] u8");
  std::vector<double> x(2);
  std::int64_t id = 0;
  std::uint8_t byte = 0;
  void* const out[] = {x.data(), &id, &byte};
  const std::int64_t row = 1;
  set->read({&row, 1}, out);
  CHECK(x == std::vector<double>{3, 4});
  CHECK(id == 5000000000);
  CHECK(byte == 8);
  CHECK_THAT(data_error([] {
               memory_dataset({1, 2, 3}, Shape{2}, {0});
             }),
             Contains("3 values") && Contains("[2]"));
  CHECK_THAT(data_error([] {
               memory_dataset({1, 2, 3, 4}, Shape{2}, {0});
             }),
             Contains("1 row in 'label'"));
  CHECK_THAT(data_error([] { memory_dataset(std::vector<float>{}, Shape{2}, {}); }),
             Contains("0 rows"));
  CHECK_THAT(data_error([] { memory_dataset(std::vector<MemoryField>{}); }),
             Contains("at least one field"));
  fields[1].name = "x";
  CHECK_THAT(data_error([&] { memory_dataset(fields); }), Contains("'x' is given twice"));
}

TEST_CASE("subset: rows of another data set") {
  const auto whole = memory_dataset({1, 2, 3, 4}, Shape{1}, {0, 1, 2, 3});
  const auto part = subset(whole, 1, 2);
  CHECK(part->rows() == 2);
  CHECK(part->classes() == 4);
  CHECK(read_all(*part) == Rows{{2, 3}, {1, 2}});
  CHECK_THAT(part->describe(), Contains("rows [1, 3) of memory: 4 rows"));
  CHECK(subset(whole, 1, -1)->rows() == 3);
  CHECK_THAT(data_error([&] { subset(whole, 3, 2); }), Contains("first 3, count 2"));
  CHECK_THAT(data_error([&] { subset(whole, 0, 0); }), Contains("0 rows"));
  CHECK_THAT(data_error([&] { read_rows(*part, {2}); }), Contains("found 2"));
}
