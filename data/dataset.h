// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/device/types.h"

namespace belfry {

// One named column of a data set: the shape and type of a row's part.
struct Field {
  std::string name;  // "image", "label", ...
  Shape shape;       // of one row; rank 0 for a label
  DType dtype = DType::f32;
};

// Numbers that were measured on rows and that others are brought by, under names of the kind.
using Figures = std::map<std::string, std::vector<double>>;

// Keys of a config, with their values as TOML, that say how the rows are made of a file's numbers.
using RowKeys = std::map<std::string, std::string>;

// Where a row is found: its number in its file, from 0, and that file where there are several.
struct RowPlace {
  std::string file;
  std::int64_t row = 0;
};

// What a read is for. Sets whose rows differ from epoch to epoch derive that from these alone.
struct ReadEpoch {
  std::uint64_t seed = 0;
  std::int64_t number = 0;  // from 0
  bool shuffled = false;    // false in evaluation: rows are then those of read()
};

// Rows in host memory or on disk, read in any order. Immutable after construction and safe to read
// from several threads. Constructors throw DataError naming file, row, found, expected.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t rows() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // Writes the rows' values, packed row after row, into one buffer per field, in fields() order.
  virtual void read(std::span<const std::int64_t> rows, std::span<void* const> out) const = 0;
  // The same for rows that are other ones in every epoch.
  virtual void read_epoch(std::span<const std::int64_t> rows, const ReadEpoch& /*epoch*/,
                          std::span<void* const> out) const {
    read(rows, out);
  }
  // Number of label classes; 0 when there are no class labels.
  virtual std::int64_t classes() const { return 0; }
  // Names of the classes in the order of their labels; empty where there are none.
  virtual std::vector<std::string> class_names() const { return {}; }
  virtual std::string describe()
      const = 0;  // "idx: 60000 rows, image [28, 28, 1] f32, label, 10 classes"
  // What one label is, "byte" or "token", where the loss is shown as nats for each; else "".
  virtual std::string label_unit() const { return ""; }
  // What was measured on these rows and belongs to a model trained on them; most have none.
  virtual Figures figures() const { return {}; }
  // How they were made, from a config: belongs to a model, too. Empty for data made by code.
  virtual RowKeys row_keys() const { return {}; }
  virtual RowPlace place(std::int64_t row) const { return {"", row}; }
  // What is odd about the rows though it may be meant, for a log; "" for nothing.
  virtual std::string warning() const { return ""; }
};

// Reads one kind of data set from its config table.
class DatasetFactory {
 public:
  virtual ~DatasetFactory() = default;
  virtual void declare(Schema& schema) = 0;
  virtual bool images() const { return true; }  // whether its rows may be images
  // From now on files may have no labels, or targets: what they would be is 0. False where the kind
  // has no such files.
  virtual bool without_labels() { return false; }
  // The keys of files that are then not read.
  virtual std::vector<std::string> label_files() const { return {}; }
  // The keys that belong to a model trained on the rows: Dataset::row_keys() of a config.
  virtual std::vector<std::string> row_keys() const { return {}; }
  // Whether open_beside() needs nothing of `train`: both are then read at the same time.
  virtual bool stands_alone() const { return false; }
  // Paths are relative to `base`, the config file's folder.
  virtual std::shared_ptr<const Dataset> open(const std::string& base) const = 0;
  // The same for rows that a model trained on `train` will see: its figures() hold here.
  virtual std::shared_ptr<const Dataset> open_beside(const std::string& base,
                                                     const Dataset& train) const;
};

// The registry's entry: a fresh factory with default values.
struct DatasetEntry {
  std::function<std::unique_ptr<DatasetFactory>()> make;
  std::string help;
};

// The rows [first, first + count) of another data set.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> whole, std::int64_t first,
                                      std::int64_t count);

}  // namespace belfry
