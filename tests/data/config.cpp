// SPDX-License-Identifier: MIT
// Data sets as a config file opens them: keys, ranges, rules and paths.
#include <algorithm>

#include "belfry/core/document.h"
#include "belfry/data/row_keys.h"
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

TEST_CASE("config: of every key of data it is known whether it belongs to a model") {
  // Which rows of which files, how a file is written, and what labels it may have.
  const std::vector<std::string> file{"images",  "labels",    "x",      "y",      "file",
                                      "files",   "x_name",    "y_name", "folder", "header",
                                      "missing", "delimiter", "first",  "count",  "part",
                                      "holdout", "classes",   "ignore", "names"};
  // Such a change shows in the rows' fields.
  const std::vector<std::string> shape{"shape", "field", "size", "context", "vocabulary"};
  const Registry registry = builtin();
  for (const auto& [kind, entry] : registry.table<DatasetEntry>()) {
    const auto factory = entry.make();
    Schema schema;
    factory->declare(schema);
    const std::vector<std::string> model = factory->row_keys();
    for (const Key& key : schema.keys()) {
      CAPTURE(kind, key.name);
      const auto in = [&k = key.name](const std::vector<std::string>& list) {
        return std::count(list.begin(), list.end(), k);
      };
      CHECK(in(model) + in(file) + in(shape) == 1);
    }
    const RowKeys keys = row_keys_of(kind, *factory);
    CHECK(keys.size() == model.size() + 1);  // each is a key; and "name"
  }
}

TEST_CASE("config: one number for all channels is the same however often it is written") {
  TempFolder dir;
  const auto keys_of = [&](const std::string& keys) {
    const Registry registry = builtin();
    Document document = Document::from_text("[data]\nfiles = [\"c\"]\n" + keys, "run.toml");
    const auto factory = registry.table<DatasetEntry>().at("cifar", "data set").make();
    Schema schema;
    factory->declare(schema);
    document.bind("data", schema);
    document.finish();
    return row_keys_of("cifar", *factory);
  };
  CHECK(keys_of("mean = [0.5, 0.5, 0.5]") == keys_of("mean = [0.5]"));
  CHECK(keys_of("mean = [0.5, 0.5, 0.4]") != keys_of("mean = [0.5]"));
  CHECK(keys_of("").at("name") == "cifar");
}

TEST_CASE("rows know their place in their file, and which of several that is") {
  TempFolder dir;
  const auto place = [](const Dataset& set, std::int64_t row) {
    const RowPlace p = set.place(row);
    return (p.file.empty() ? "" : p.file + " ") + std::to_string(p.row);
  };
  dir.write("a.bin", std::string(std::size_t{3073} * 3, '\x05'));
  dir.write("b.bin", std::string(std::size_t{3073} * 2, '\x05'));
  const auto two = open(dir, "cifar", "files = [\"a.bin\", \"b.bin\"]\nfirst = 1");
  CHECK(place(*two, 0) == dir.path("a.bin") + " 1");
  CHECK(place(*two, 1) == dir.path("a.bin") + " 2");
  CHECK(place(*two, 2) == dir.path("b.bin") + " 0");
  CHECK(place(*subset(two, 3, 1), 0) == dir.path("b.bin") + " 1");
  CHECK(place(*open(dir, "cifar", "files = [\"a.bin\"]\nfirst = 1"), 0) == "1");
  dir.write("t.csv", "x,y\n1,0\n,1\n3,1\n4,0\n");
  const auto table = open(dir, "csv", "file = \"t.csv\"\nmissing = \"drop\"\nfirst = 1");
  CHECK(place(*table, 0) == "2");
  CHECK(place(*with_row_keys(table, {}), 1) == "3");
}
