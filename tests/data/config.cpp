// SPDX-License-Identifier: MIT
// Data sets as a config file opens them: keys, ranges, rules and paths.
#include "belfry/core/document.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

std::shared_ptr<const Dataset> open(const TempFolder& dir, const std::string& kind,
                                    const std::string& keys) {
  const Registry registry = builtin();
  Document document = Document::from_text("[data]\n" + keys, dir.path("run.toml"));
  const auto factory = registry.table<DatasetEntry>().at(kind, "data set").make();
  Schema schema;
  factory->declare(schema);
  document.bind("data", schema);
  document.finish();
  // What dump() writes opens the same data set.
  Document again = Document::from_text(document.dump(), "dump");
  const auto second = registry.table<DatasetEntry>().at(kind, "data set").make();
  Schema second_schema;
  second->declare(second_schema);
  again.bind("data", second_schema);
  again.finish();
  const auto set = factory->open(dir.path(""));
  CHECK(second->open(dir.path(""))->describe() == set->describe());
  return set;
}

}  // namespace

TEST_CASE("config: data sets open from their tables, with paths beside the config file") {
  TempFolder dir;
  dir.write("i", idx_images(3, 2, 2, "abcdefghijkl"));
  dir.write("l", idx_labels(3, std::string("\x02\xff\x01", 3)));
  dir.write("t.csv", "x,y\n1,0\n2,1\n3,1\n");
  dir.write("c.bin", std::string(3073, '\x05'));
  const auto images = open(
      dir, "idx",
      "images = \"i\"\nlabels = \"l\"\nmean = 0.5\nstd = 2\nclasses = 3\nignore = 255\nfirst = 1");
  CHECK(images->rows() == 2);
  CHECK(images->classes() == 3);
  CHECK(read_all(*images).labels == std::vector<std::int32_t>{255, 1});
  const auto table =
      open(dir, "csv", "file = \"t.csv\"\nlabel = \"y\"\nshape = [1, 1, 1]\nscale = 2\ncount = 2");
  CHECK(read_all(*table) == Rows{{0.5, 1}, {0, 1}});
  const auto cifar = open(dir, "cifar", "files = [\"c.bin\"]\nmean = [0.1, 0.2, 0.3]\nstd = [0.5]");
  CHECK(cifar->rows() == 1);
}

TEST_CASE("config: mistakes in a data table are ConfigErrors before a file is opened") {
  TempFolder dir;
  const auto bad = [&](const std::string& kind, const std::string& keys) {
    return error_of<ConfigError>([&] { open(dir, kind, keys); });
  };
  CHECK_THAT(bad("idx", "images = \"i\""), Contains("`images` and `labels`"));
  CHECK_THAT(bad("idx", "images = \"i\"\nlables = \"l\""),
             Contains("lables") && Contains("labels"));
  CHECK_THAT(bad("idx", "images = \"i\"\nlabels = \"l\"\nstd = 0"), Contains("std"));
  CHECK_THAT(bad("idx", "images = \"i\"\nlabels = \"l\"\nmean = nan"), Contains("mean"));
  CHECK_THAT(bad("csv", "label = \"y\""), Contains("`file`"));
  CHECK_THAT(bad("csv", "file = \"f\"\nheader = \"maybe\""),
             Contains("header") && Contains("maybe"));
  CHECK_THAT(bad("csv", "file = \"f\"\nshape = [0]"), Contains("shape"));
  CHECK_THAT(bad("csv", "file = \"f\"\nfield = \"label\""), Contains("`field`"));
  CHECK_THAT(bad("cifar", "kind = \"cifar10\""), Contains("`files`"));
  CHECK_THAT(bad("cifar", "files = [\"f\"]\nkind = \"cifar100\""), Contains("`label`"));
  CHECK_THAT(bad("cifar", "files = [\"f\"]\nmean = [1.0, 2.0]"), Contains("1 or 3 values"));
  CHECK_THAT(bad("idz", ""), Contains("idz") && Contains("idx"));
}
