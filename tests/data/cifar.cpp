// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/cifar/cifar.h"

#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

std::string record(const std::string& labels, char r, char g, char b) {
  return labels + std::string(1024, r) + std::string(1024, g) + std::string(1024, b);
}

std::string sparse(const TempFolder& dir, const std::string& name, std::uintmax_t bytes) {
  const std::string path = dir.write(name, "");
  std::filesystem::resize_file(path, bytes);
  return path;
}

}  // namespace

TEST_CASE("B40: planes at bytes 1, 1025 and 2049 become channels of a pixel") {
  TempFolder dir;
  const auto file = dir.write("a.bin", record("\x07", 1, 2, 3));
  const auto set = cifar({file});
  CHECK(set->rows() == 1);
  CHECK(set->classes() == 10);
  CHECK(set->fields()[0].shape == Shape{32, 32, 3});
  const Rows rows = read_all(*set);
  CHECK(rows.labels == std::vector<std::int32_t>{7});
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    REQUIRE(rows.values[i] == static_cast<float>((1 + i % 3) / 255.0));
  std::string spotted = record("\x01", 0, 0, 0);
  spotted[1] = '\x0a', spotted[1025] = '\x14', spotted[2049] = '\x1e';  // the first pixel
  const auto two = cifar({file, dir.write("b.bin.gz", gzip(spotted))},
                         {.mean = {0, 0.5, 1}, .stddev = {1, 0.5, 0.25}});
  CHECK(two->rows() == 2);
  const Rows second = read_rows(*two, {1});
  CHECK(second.values[0] == static_cast<float>(10 / 255.0));
  CHECK(second.values[1] == static_cast<float>((20 / 255.0 - 0.5) / 0.5));
  CHECK(second.values[2] == static_cast<float>((30 / 255.0 - 1) / 0.25));
  CHECK(second.values[3] == 0.f);
  CHECK(cifar({file, file, file}, {.rows = {.first = 1, .count = 2}})->rows() == 2);
}

TEST_CASE("B40: CIFAR-100 labels are chosen explicitly") {
  TempFolder dir;
  const auto file = dir.write("c", record(std::string("\x13\x63", 2), 1, 2, 3));
  CHECK(read_all(*cifar({file}, {.kind = "cifar100", .label = "coarse"})).labels[0] == 19);
  const auto fine = cifar({file}, {.kind = "cifar100", .label = "fine"});
  CHECK(fine->classes() == 100);
  CHECK(read_all(*fine).labels[0] == 99);
  CHECK(read_all(*fine).values[0] == 1 / 255.f);
  CHECK_THAT(error_of<ConfigError>([&] { cifar({file}, {.kind = "cifar100"}); }),
             Contains("'fine' (100 classes) or 'coarse'"));
  CHECK_THAT(error_of<ConfigError>([&] { cifar({file}, {.kind = "cifar"}); }),
             Contains("'cifar10' or 'cifar100'"));
}

TEST_CASE("B40: wrong sizes name record size and remainder, and the other kind where it fits") {
  TempFolder dir;
  CHECK_THAT(data_error([&] { cifar({sparse(dir, "cut", 5 * 3073 + 100)}); }),
             Contains("cut: ") && Contains("15465 bytes") && Contains("3073") &&
                 Contains("remainder 100"));
  CHECK_THAT(data_error([&] { cifar({sparse(dir, "hundred", 153700000)}); }),
             Contains("remainder 832") && Contains("3074") && Contains("cifar100"));
  CHECK_THAT(data_error([&] {
               cifar({sparse(dir, "ten", 30730000)}, {.kind = "cifar100", .label = "fine"});
             }),
             Contains("remainder 2296") && Contains("3073") && Contains("cifar10\""));
  CHECK_THAT(data_error([&] { cifar({dir.write("gz", gzip(record("\x01", 1, 2, 3) + "more"))}); }),
             Contains("remainder 4"));
  CHECK_THAT(data_error([&] { cifar({dir.write("empty", "")}); }),
             Contains("empty: ") && Contains("0 rows"));
}

TEST_CASE("B40: a bad label names file and record; a missing file comes first") {
  TempFolder dir;
  const auto good = dir.write("good", record("\x09", 1, 2, 3)),
             bad = dir.write("bad", record("\x01", 1, 2, 3) + record("\x0a", 1, 2, 3));
  CHECK_THAT(data_error([&] {
               cifar({good, bad});
             }),
             Contains("bad: ") && Contains("label 10 in row 1") && Contains("[0,10)"));
  CHECK_THAT(data_error([&] {
               cifar({bad, dir.path("absent")});
             }),
             Contains("absent: ") && Contains("does not exist"));
  CHECK_THAT(error_of<ConfigError>([&] { cifar({}); }), Contains("`files`"));
  CHECK_THAT(error_of<ConfigError>([&] {
               cifar({good}, {.mean = {1, 2}});
             }),
             Contains("`mean`") && Contains("1 or 3"));
}
