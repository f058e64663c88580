// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/idx/idx.h"

#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

const std::string kPixels("\x00\xff\x33\x66\x01\x02\x03\x04\x05\x06\x07\x08",
                          12);  // 3 rows of 2 x 2
const std::string kLabels("\x02\x00\x01", 3);

}  // namespace

TEST_CASE("idx: values, labels, shape and description of a small file") {
  TempFolder dir;
  const auto images = dir.write("i", idx_images(3, 2, 2, kPixels)),
             labels = dir.write("l", idx_labels(3, kLabels));
  const auto set = idx(images, labels);
  CHECK(set->rows() == 3);
  CHECK(set->classes() == 3);
  REQUIRE(set->fields().size() == 2);
  CHECK(set->fields()[0].name == "image");
  CHECK(set->fields()[0].shape == Shape{2, 2, 1});
  CHECK(set->fields()[0].dtype == DType::f32);
  CHECK(set->fields()[1].name == "label");
  CHECK(set->fields()[1].shape == Shape{});
  CHECK(set->fields()[1].dtype == DType::i32);
  const Rows rows = read_rows(*set, {0, 2});
  CHECK(rows.values == std::vector<float>{0, 1, 51 / 255.f, 102 / 255.f, 5 / 255.f, 6 / 255.f,
                                          7 / 255.f, 8 / 255.f});
  CHECK(rows.labels == std::vector<std::int32_t>{2, 1});
  CHECK(set->describe() == "idx: 3 rows, image [2, 2, 1] f32, label i32, 3 classes");
  CHECK_THAT(data_error([&] { read_rows(*set, {3}); }), Contains("found 3") && Contains("[0, 3)"));
}

TEST_CASE("idx: gzip gives the same rows; mean, std and the row range apply") {
  TempFolder dir;
  const auto images = dir.write("i", idx_images(3, 2, 2, kPixels)),
             labels = dir.write("l", idx_labels(3, kLabels));
  const auto zipped = dir.write("i.gz", gzip(idx_images(3, 2, 2, kPixels))),
             zipped_labels = dir.write("l.gz", gzip(idx_labels(3, kLabels)));
  CHECK(read_all(*idx(zipped, zipped_labels)) == read_all(*idx(images, labels)));
  const auto part = idx(
      images, labels,
      {.mean = 0.5, .stddev = 0.25, .labels = {.classes = 5}, .rows = {.first = 1, .count = 1}});
  CHECK(part->rows() == 1);
  CHECK(part->classes() == 5);
  const Rows rows = read_all(*part);
  CHECK(rows.labels == std::vector<std::int32_t>{0});
  CHECK(rows.values[3] == static_cast<float>((4.0 / 255.0 - 0.5) / 0.25));
  CHECK(idx(images, labels, {.rows = {.first = 2}})->rows() == 1);
  CHECK_THAT(data_error([&] { idx(images, labels, {.rows = {.first = 3}}); }), Contains("0 rows"));
  CHECK_THAT(data_error([&] { idx(images, labels, {.rows = {.first = 2, .count = 2}}); }),
             Contains("first 2, count 2") && Contains("[0, 3)"));
  CHECK_THAT(error_of<ConfigError>([&] { idx(images, labels, {.stddev = 0}); }), Contains("`std`"));
}

TEST_CASE("idx: damaged or mixed-up files are named with what was found") {
  TempFolder dir;
  const auto images = dir.write("i", idx_images(3, 2, 2, kPixels)),
             labels = dir.write("l", idx_labels(3, kLabels));
  const auto bad = [&](const std::string& bytes) {
    const auto file = dir.write("bad", bytes);
    return data_error([&] { idx(file, labels); });
  };
  CHECK_THAT(bad(idx_labels(3, kLabels)),
             Contains("bad: ") && Contains("0x00000801 (a labels file)") && Contains("0x00000803"));
  CHECK_THAT(data_error([&] { idx(images, images); }), Contains("0x00000803 (an images file)"));
  CHECK_THAT(bad(gzip(gzip(idx_images(3, 2, 2, kPixels)))), Contains("compressed twice"));
  CHECK_THAT(bad("PK\x03\x04 and more"), Contains("a zip archive"));
  CHECK_THAT(bad("<!DOCTYPE html><html>not found"), Contains("HTML"));
  CHECK_THAT(bad(big_endian(0x03080000) + std::string(40, '\0')), Contains("bytes swapped"));
  CHECK_THAT(bad(big_endian(0xd03) + std::string(40, '\0')), Contains("type 0d with 3 dimensions"));
  CHECK_THAT(bad(idx_images(3, 2, 2, kPixels.substr(1))),
             Contains("found 11 bytes") && Contains("12 bytes for 3 rows of 2 x 2"));
  CHECK_THAT(bad(gzip(idx_images(3, 2, 2, kPixels.substr(1)))), Contains("found 11 bytes"));
  CHECK_THAT(bad(idx_images(3, 2, 2, kPixels + "x")), Contains("found 1 more bytes"));
  CHECK_THAT(bad(idx_images(2, 2, 2, kPixels.substr(4))),
             Contains("found 2 images") && Contains("3 labels"));
  CHECK_THAT(bad(idx_images(3, 0, 2, "")), Contains("0 x 2"));
  CHECK_THAT(bad(idx_images(0xffffffffu, 0xffffffffu, 0xffffffffu, kPixels)),
             Contains("more than 2^64"));
  CHECK_THAT(bad(idx_images(0xffffffffu, 28, 28, kPixels)), Contains("found 12 bytes"));
  CHECK_THAT(bad(gzip(idx_images(0xffffffffu, 28, 28, kPixels))), Contains("bytes of gzip"));
  CHECK_THAT(data_error([&] { idx(dir.path("none"), labels); }),
             Contains("none: ") && Contains("does not exist"));
  CHECK_THAT(data_error([&] { idx(dir.path("."), labels); }), Contains("folder"));
}

TEST_CASE("idx: the registry's factory reads the config table and finds files beside the config") {
  TempFolder dir;
  dir.write("i", idx_images(3, 2, 2, kPixels));
  dir.write("l", idx_labels(3, kLabels));
  const Registry registry = builtin();
  const auto factory = registry.table<DatasetEntry>().at("idx", "data set").make();
  Schema schema;
  factory->declare(schema);
  CHECK_THAT(error_of<ConfigError>([&] { schema.validate("data"); }),
             Contains("`images` and `labels`"));
  for (const Key& key : schema.keys()) {
    if (key.name == "images") *std::get<std::string*>(key.target) = "i";
    if (key.name == "labels") *std::get<std::string*>(key.target) = "l";
    if (key.name == "first") *std::get<std::int64_t*>(key.target) = 1;
    CHECK_FALSE(key.options.help.empty());
  }
  schema.validate("data");
  const auto set = factory->open(dir.path(""));
  CHECK(set->rows() == 2);
  CHECK(read_all(*set).labels == std::vector<std::int32_t>{0, 1});
}
