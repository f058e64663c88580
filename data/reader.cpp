// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>

#include "belfry/core/delay.h"
#include "belfry/core/error.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/reader_internal.h"

namespace belfry {

BatchBuffer::BatchBuffer(Arena& arena, const std::vector<Field>& fields, std::int64_t rows) {
  for (const Field& f : fields) {
    const std::size_t values = static_cast<std::size_t>(rows * f.shape.size());
    const std::size_t bytes = std::max<std::size_t>(values * size_of(f.dtype), 1);
    owners_.emplace_back(arena.take(bytes),
                         [&arena, bytes](void* p) { arena.give_back(p, bytes); });
    blocks_.push_back(owners_.back().get());
  }
}

namespace {

std::shared_ptr<const Dataset> checked(std::shared_ptr<const Dataset> dataset,
                                       LoaderOptions options) {
  Schema schema;
  options.declare(schema);
  options.augment.declare(schema);
  schema.validate("loader");
  if (!dataset) throw ConfigError("a loader needs a data set");
  if (dataset->rows() < 1)
    throw DataError(ErrorText{.what = "the data set is empty: " + dataset->describe(),
                              .found = "0 rows",
                              .expected = "at least 1 row"});
  options.augment.check(dataset->fields());
  if (options.drop_last && dataset->rows() < options.batch)
    throw DataError(
        ErrorText{.what = "drop_last would drop the only batch",
                  .found = count_text(dataset->rows(), "row"),
                  .expected = "at least " + std::to_string(options.batch) + ", one batch",
                  .fix = "use a smaller batch or drop_last = false"});
  return dataset;
}

}  // namespace

BatchReader::BatchReader(Context& context, std::shared_ptr<const Dataset> dataset,
                         const LoaderOptions& options)
    : context_(context),
      dataset_(checked(std::move(dataset), options)),
      options_(options),
      rows_(dataset_->rows()),
      used_(options.drop_last ? rows_ / options.batch * options.batch : rows_) {
  if (__builtin_mul_overflow(rows_, options.epochs, &end_))
    throw ConfigError(ErrorText{.what = "rows x epochs do not fit 64 bits",
                                .found = std::to_string(options.epochs) + " epochs"});
  // Pinning memory may wait for whatever runs on any GPU: not under way, but before.
  if (context.device(0).host_memory()) return;
  for (int t = 0; t < context.towers(); ++t) context.device(t).synchronize();
  while (buffers_.size() < ring()) buffers_.push_back(new_buffer());
}

// The queue, the batch in use and the one before it; a caller that keeps more pays for them.
std::size_t BatchReader::ring() const { return static_cast<std::size_t>(options_.prefetch) + 3; }

std::shared_ptr<BatchBuffer> BatchReader::new_buffer() const {
  return std::make_shared<BatchBuffer>(context_.device(0).arena(MemoryKind::pinned),
                                       dataset_->fields(), std::min(options_.batch, rows_));
}

std::shared_ptr<BatchBuffer> BatchReader::free_buffer() {
  for (const auto& b : buffers_)
    if (!b->busy.load(std::memory_order_acquire)) {
      context_.host().observe(b.get());
      return b;
    }
  auto made = new_buffer();
  if (buffers_.size() < ring()) buffers_.push_back(made);
  return made;
}

// Sleeps in short steps, so that a loader can be destroyed meanwhile.
bool BatchReader::delay_unless(const std::atomic<bool>& stop) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (double left = options_.delay_seconds; left > 0;) {
    if (stop.load()) return false;
    delay(std::min(left, 0.005));
    left = options_.delay_seconds - std::chrono::duration<double>(Clock::now() - start).count();
  }
  return true;
}

ReadBatch BatchReader::read(ReadControl& control) {
  if (options_.delay_seconds > 0 && !delay_unless(control.stop)) return {};
  const std::int64_t epoch = position_ / rows_, first = position_ % rows_;
  if (epoch != order_epoch_) {
    order_ = epoch_order(rows_, context_.seed(), epoch, options_.shuffle);
    order_epoch_ = epoch;
  }
  ReadBatch out;
  out.rows = std::min(options_.batch, used_ - first);
  out.epoch = epoch;
  const std::shared_ptr<BatchBuffer> buffer = free_buffer();
  const std::span<const std::int64_t> wanted(order_.data() + first,
                                             static_cast<std::size_t>(out.rows));
  Touches written;
  for (std::size_t f = 0; f < dataset_->fields().size(); ++f)
    written.writes(buffer->blocks()[f],
                   static_cast<std::size_t>(out.rows) *
                       static_cast<std::size_t>(dataset_->fields()[f].shape.size()) *
                       size_of(dataset_->fields()[f].dtype));
  context_.device(0).main().host_access(written);
  const std::uint64_t seed = context_.seed();  // the context may be gone when a late read returns
  control.enter();
  if (control.stop.load()) {  // set before the caller could see that somebody is inside
    if (!control.leave()) buffers_.push_back(buffer);
    return {};
  }
  try {
    dataset_->read_epoch(wanted, {seed, epoch, options_.shuffle}, buffer->blocks());
    options_.augment.apply(dataset_->fields(), seed, epoch, wanted, buffer->blocks());
  } catch (...) {
    if (control.leave()) throw;
    buffers_.push_back(buffer);
    return {};
  }
  if (!control.leave()) {
    buffers_.push_back(buffer);  // stays: its arena may be gone
    return {};
  }
  buffer->busy.store(true, std::memory_order_relaxed);
  out.blocks = &buffer->blocks();
  out.lease = std::shared_ptr<void>(buffer.get(), [buffer, host = &context_.host()](void* key) {
    host->publish(key);
    buffer->busy.store(false, std::memory_order_release);
  });
  const std::int64_t last = first + out.rows;
  out.position_after = last == used_ ? (epoch + 1) * rows_ : epoch * rows_ + last;
  position_ = out.position_after;
  return out;
}

std::int64_t BatchReader::boundary(std::int64_t position) const {
  if (position < 0 || position > end_)
    throw DataError(ErrorText{.what = "a position lies past the end of the data",
                              .found = "row " + std::to_string(position),
                              .expected = "rows in [0, " + std::to_string(end_) + "], " +
                                          std::to_string(options_.epochs) + " epochs of " +
                                          std::to_string(rows_)});
  const std::int64_t epoch = position / rows_, inside = position % rows_;
  if (inside % options_.batch != 0)
    throw DataError(
        ErrorText{.what = "a position is not at the start of a batch",
                  .found = "row " + std::to_string(inside) + " of epoch " + std::to_string(epoch),
                  .expected = "a multiple of the batch, " + std::to_string(options_.batch),
                  .fix = "resume with the batch size and data the run was saved with"});
  return inside > 0 && inside >= used_ ? (epoch + 1) * rows_ : position;
}

}  // namespace belfry
