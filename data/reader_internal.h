// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "belfry/data/loader.h"

namespace belfry {

// Host memory for one batch, a block a field, from the device's pinned arena. `busy` is cleared by
// whoever drops the last tensor on it, on any thread; everything else belongs to the reading
// thread.
class BatchBuffer {
 public:
  BatchBuffer(Arena& arena, const std::vector<Field>& fields, std::int64_t rows);
  const std::vector<void*>& blocks() const noexcept { return blocks_; }
  std::atomic<bool> busy{false};

 private:
  std::vector<std::shared_ptr<void>> owners_;
  std::vector<void*> blocks_;
};

// One batch in memory; `lease` keeps its buffer from being reused.
struct ReadBatch {
  std::int64_t rows = 0;
  std::int64_t epoch = 0;
  std::int64_t position_after = 0;
  const std::vector<void*>* blocks = nullptr;
  std::shared_ptr<void> lease;
};

// How a reading thread and its loader part. A thread that is inside the data set's read() can be
// given up; it learns that from leave() and then touches nothing but the loader's own memory.
class ReadControl {
 public:
  std::atomic<bool> stop{false};

  void enter() noexcept { state_ = kInside; }
  bool leave() noexcept { return change(kInside, kOutside); }  // false: it was given up
  bool give_up() noexcept { return change(kInside, kGivenUp); }
  bool given_up() const noexcept { return state_ == kGivenUp; }

 private:
  static constexpr int kOutside = 0, kInside = 1, kGivenUp = 2;
  bool change(int from, int to) noexcept { return state_.compare_exchange_strong(from, to); }
  std::atomic<int> state_{kOutside};
};

// The stream of batches behind a Loader: knows the order, the position and the buffers, and no
// threads. One thread at a time.
class BatchReader {
 public:
  BatchReader(Context& context, std::shared_ptr<const Dataset> dataset,
              const LoaderOptions& options);

  bool done() const noexcept { return position_ >= end_; }
  // The batch at the position. Returns early, with no rows, when asked to stop in the delay or
  // given up in the read.
  ReadBatch read(ReadControl& control);
  // Throws DataError unless `position` is a batch boundary in [0, end].
  std::int64_t boundary(std::int64_t position) const;
  void seek(std::int64_t position) noexcept { position_ = position; }

  const Dataset& dataset() const noexcept { return *dataset_; }
  const LoaderOptions& options() const noexcept { return options_; }
  std::int64_t end() const noexcept { return end_; }
  std::int64_t rows_used() const noexcept { return used_; }
  std::int64_t rows_dropped() const noexcept { return rows_ - used_; }

 private:
  std::size_t ring() const;
  std::shared_ptr<BatchBuffer> new_buffer() const;
  std::shared_ptr<BatchBuffer> free_buffer();
  bool delay_unless(const std::atomic<bool>& stop) const;

  Context& context_;
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::int64_t rows_;  // of an epoch, dropped ones included
  std::int64_t used_;  // of an epoch, without what drop_last drops
  std::int64_t end_;   // rows_ x epochs
  std::int64_t position_ = 0;
  std::int64_t order_epoch_ = -1;
  std::vector<std::int64_t> order_;
  std::vector<std::shared_ptr<BatchBuffer>> buffers_;
};

}  // namespace belfry
