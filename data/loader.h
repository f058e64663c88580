// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/autodiff/tensor.h"
#include "belfry/data/augment.h"
#include "belfry/data/dataset.h"
#include "belfry/device/context.h"

namespace belfry {

// Which rows of the training a batch has.
struct BatchPlace {
  std::int64_t rows = 0;
  std::int64_t first_row = 0;       // position of row 0 in the global batch; keys random numbers
  std::int64_t full_rows = 0;       // rows of a full batch; 0: as many as this one has
  std::int64_t rows_per_epoch = 0;  // 0 when unknown: "e" units are then a ConfigError
  std::int64_t epoch = 0;           // from 0
  double wait_seconds = 0;          // how long the caller waited for this batch
};

// Rows of one update, or a tower's part of them: one tensor a field, on host memory.
class Batch : public BatchPlace {
 public:
  // The field's tensor; throws DataError with the known names.
  const Tensor& operator[](const std::string& field) const;
  void add(const std::string& field, Tensor tensor);
  // Rows [first, first + count) as views; first_row moves along.
  Batch slice(std::int64_t first, std::int64_t count) const;
  std::vector<std::string> names() const;
  // Becomes the batch of these rows; its fields stay.
  void place(const BatchPlace& there) { static_cast<BatchPlace&>(*this) = there; }

 private:
  std::vector<std::pair<std::string, Tensor>> fields_;
};

struct LoaderOptions {
  std::int64_t batch = 64;
  std::int64_t epochs = 1;  // a total: a loader set to position p ends at the same row
  bool shuffle = true;
  bool drop_last = false;      // drops the short last batch of each epoch, and says so
  std::int64_t prefetch = 2;   // batches prepared ahead by a thread; 0 reads in next()
  double delay_seconds = 0;    // artificial delay a batch, where it is read; for tests and benches
  double timeout_seconds = 0;  // longest wait for a batch, 0: no limit; needs prefetch >= 1
  AugmentOptions augment{};    // for training; its keys are declared apart, in [data]

  void declare(Schema& schema);
  std::string fault() const;  // between keys; "" for none
};

// Batches in the order given by (seed, epoch): one permutation an epoch, each row once, the same
// for any number of towers. Position is counted in rows over all epochs. Use from one thread.
// Errors of the reading thread come out of next(), which may then be called again and retries.
// Batches are views of pinned buffers that go back to the loader with their last tensor, on any
// thread; they may outlive the loader. Neither may outlive the Context.
// A batch that is not there after timeout_seconds is a DataError naming its rows; next() may be
// called again. The destructor waits as long for a read under way, then gives its thread up: data
// set and buffers of that read stay in memory for good.
// Throws ConfigError on options out of range, DataError on 0 rows or when drop_last leaves none.
class Loader {
 public:
  Loader(Context& context, std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  bool next(Batch& out);                   // false at the end
  std::int64_t position() const noexcept;  // rows handed out, dropped ones included
  void seek(std::int64_t rows);            // to a batch boundary; throws DataError past the end
  std::int64_t rows_per_epoch() const noexcept;  // what is trained: without what drop_last drops
  std::int64_t batches_per_epoch() const noexcept;
  const Dataset& dataset() const noexcept;
  const LoaderOptions& options() const noexcept;

  struct Iterator {
    Loader* loader;
    std::shared_ptr<Batch> batch;
    const Batch& operator*() const { return *batch; }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return loader != other.loader; }
  };
  Iterator begin();
  Iterator end() { return {nullptr, nullptr}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The order of one epoch: a permutation of 0..rows-1 from (seed, epoch).
std::vector<std::int64_t> epoch_order(std::int64_t rows, std::uint64_t seed, std::int64_t epoch,
                                      bool shuffle);

}  // namespace belfry
