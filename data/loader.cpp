// SPDX-License-Identifier: MIT
#include "belfry/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

#include "belfry/core/error.h"
#include "belfry/core/log.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/reader_internal.h"

namespace belfry {

std::string LoaderOptions::fault() const {
  return timeout_seconds > 0 && prefetch == 0 ? "timeout_seconds needs prefetch >= 1" : "";
}

void LoaderOptions::declare(Schema& schema) {
  schema
      .key("batch", batch,
           {.min = 1,
            .max = 2147483647.0,
            .unit = "rows",
            .help = "rows of one update, over all towers"})
      .key(
          "epochs", epochs,
          {.min = 0, .max = 1e9, .help = "passes over the data, counted from the start of the run"})
      .key("shuffle", shuffle, {.help = "a new order each epoch, from the seed"})
      .key("drop_last", drop_last, {.help = "leave out the short last batch of each epoch"})
      .key("prefetch", prefetch,
           {.min = 0,
            .max = 64,
            .unit = "batches",
            .help = "batches read ahead by a thread; 0: none"})
      .key(
          "delay_seconds", delay_seconds,
          {.min = 0, .max = 3600, .unit = "seconds", .help = "artificial delay a batch; for tests"})
      .key("timeout_seconds", timeout_seconds,
           {.min = 0,
            .max = 1e6,
            .unit = "seconds",
            .help = "longest wait for a batch, then a data error; 0: no limit"})
      .rule([this] { return fault(); });
}

// The hand-over between the reading thread and next(): a ring of `prefetch` batches. `produced` is
// raised by the reading thread only, `consumed` and `stop` are set by the caller only. Entries from
// `consumed` up to `produced` belong to the caller, the others to the reading thread, and while the
// thread runs so does `reader`. `ended` is the thread's last word.
struct Loader::Impl {
  struct Entry {
    ReadBatch batch;
    std::exception_ptr error;
  };

  Impl(Context& c, std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : context(c),
        reader(c, std::move(dataset), options),
        ring(static_cast<std::size_t>(options.prefetch)) {
    for (const Field& f : reader.dataset().fields()) {
      std::vector<std::int64_t> extents = f.shape.extents();
      extents.insert(extents.begin(), std::int64_t{1});
      shapes.emplace_back(extents);
    }
  }

  void produce();
  void start_thread();
  bool stop_thread();  // false: it is inside a read that does not end, and was given up
  bool await_batch();
  [[noreturn]] void throw_late(const std::string& what) const;
  ReadBatch take();
  Entry& slot(std::uint64_t number);  // announced as the caller's
  void fill(Batch& out, const ReadBatch& batch) const;

  Context& context;
  BatchReader reader;
  std::vector<Shape> shapes;  // of a batch of one row
  std::vector<Entry> ring;
  std::atomic<std::uint64_t> produced{0}, consumed{0};
  std::atomic<bool> ended{false};
  ReadControl control;
  bool running = false;
  bool late = false;  // the last next() waited in vain
  bool lost = false;  // the thread was given up
  Impl* next_lost = nullptr;
  std::uint64_t thread = 0;
  std::int64_t position = 0;
};

void Loader::Impl::produce() {
  for (bool failed = false; !failed && !reader.done();) {
    context.host().wait(
        [this] { return control.stop.load() || produced.load() - consumed.load() < ring.size(); });
    if (control.stop.load()) return;
    Entry entry;
    try {
      entry.batch = reader.read(control);
    } catch (...) {
      entry.error = std::current_exception();
      failed = true;
    }
    if (control.stop.load()) return;
    const std::uint64_t number = produced.load();
    context.host().observe(&consumed, number - ring.size());
    slot(number) = std::move(entry);
    context.host().publish(&produced, number);
    produced.fetch_add(1);
    context.host().notify();
  }
}

void Loader::Impl::start_thread() {
  reader.seek(position);
  produced = 0;
  consumed = 0;
  control.stop = false;
  ended = false;
  thread = context.host().spawn(
      [](void* self) {
        auto* const impl = static_cast<Impl*>(self);
        impl->produce();
        if (impl->control.given_up()) return;  // the context may be gone
        impl->ended = true;
        impl->context.host().notify();
      },
      this);
  running = true;
}

bool Loader::Impl::stop_thread() {
  if (lost) return false;
  if (!running) return true;
  control.stop = true;
  context.host().notify();
  if (const double limit = reader.options().timeout_seconds; limit > 0) {
    context.host().wait_for([this] { return ended.load(); }, late ? 0 : limit);
    if (!ended.load() && control.give_up()) {
      context.host().abandon(thread);
      lost = true;
      return false;
    }
  }
  context.host().join(thread);
  running = false;
  for (Entry& e : ring) e = {};
  return true;
}

void Loader::Impl::throw_late(const std::string& what) const {
  const std::int64_t rows = reader.dataset().rows(), batch = reader.options().batch;
  const std::int64_t first = position % rows, end = std::min(first + batch, reader.rows_used());
  throw DataError(ErrorText{
      .what = what,
      .found = "nothing after " + fmt::format("{}", reader.options().timeout_seconds) + " s",
      .expected = fmt::format("batch {} of epoch {}: rows {} to {} of its order, position {}",
                              first / batch + 1, position / rows + 1, first, end - 1, position),
      .fix = "look at what the data set reads from, or raise loader.timeout_seconds"});
}

bool Loader::Impl::await_batch() {
  auto there = [this] { return produced.load() > consumed.load(); };
  const double limit = reader.options().timeout_seconds;
  if (limit > 0) return context.host().wait_for(there, limit);
  context.host().wait(there);
  return true;
}

Loader::Impl::Entry& Loader::Impl::slot(std::uint64_t number) {
  Entry& entry = ring[number % ring.size()];
  context.device(0).main().host_access(Touches().writes(&entry, sizeof entry));
  return entry;
}

ReadBatch Loader::Impl::take() {
  if (lost) throw_late("the loader's reading thread was given up");
  if (!running) start_thread();
  late = !await_batch();
  if (late) throw_late("the data set does not answer");
  const std::uint64_t number = consumed.load();
  context.host().observe(&produced, number);
  Entry entry = std::move(slot(number));
  context.host().publish(&consumed, number);
  consumed.fetch_add(1);
  context.host().notify();
  if (entry.error) {
    stop_thread();
    std::rethrow_exception(entry.error);
  }
  return std::move(entry.batch);
}

void Loader::Impl::fill(Batch& out, const ReadBatch& batch) const {
  const std::vector<Field>& fields = reader.dataset().fields();
  for (std::size_t f = 0; f < fields.size(); ++f)
    out.add(fields[f].name,
            Tensor::wrap((*batch.blocks)[f], shapes[f].with(0, batch.rows), fields[f].dtype,
                         context.device(0), batch.lease, MemoryKind::pinned));
  out.rows = batch.rows;
  out.rows_per_epoch = reader.rows_used();
  out.full_rows = reader.options().batch;
  out.epoch = batch.epoch;
}

Loader::Loader(Context& context, std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(context, std::move(dataset), options)) {
  const BatchReader& reader = impl_->reader;
  if (reader.rows_dropped() > 0)
    context.logger().info("drop_last leaves out {} of the {} of each epoch (batch {})",
                          reader.rows_dropped(), count_text(reader.dataset().rows(), "row"),
                          options.batch);
}

Loader::~Loader() {
  if (impl_->stop_thread()) return;
  // The thread may still write into a buffer: everything it knows stays, reachable for whoever
  // looks for leaks.
  static std::atomic<Impl*> lost{nullptr};
  Impl* const impl = impl_.release();
  impl->next_lost = lost.exchange(impl);
}

bool Loader::next(Batch& out) {
  out = Batch{};  // first, so that its buffer can be used again
  if (impl_->position >= impl_->reader.end()) return false;
  const auto start = std::chrono::steady_clock::now();
  ReadBatch batch;
  if (impl_->ring.empty()) {
    impl_->reader.seek(impl_->position);
    batch = impl_->reader.read(impl_->control);
  } else {
    batch = impl_->take();
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  impl_->fill(out, batch);
  out.wait_seconds = waited.count();
  impl_->position = batch.position_after;
  return true;
}

std::int64_t Loader::position() const noexcept { return impl_->position; }

void Loader::seek(std::int64_t rows) {
  const std::int64_t wanted = impl_->reader.boundary(rows);
  if (!impl_->stop_thread()) impl_->throw_late("the data set does not answer");
  impl_->position = wanted;
}

std::int64_t Loader::rows_per_epoch() const noexcept { return impl_->reader.rows_used(); }

std::int64_t Loader::batches_per_epoch() const noexcept {
  const std::int64_t batch = impl_->reader.options().batch;
  return (impl_->reader.rows_used() - 1) / batch + 1;
}

const Dataset& Loader::dataset() const noexcept { return impl_->reader.dataset(); }

const LoaderOptions& Loader::options() const noexcept { return impl_->reader.options(); }

Loader::Iterator& Loader::Iterator::operator++() {
  if (!loader->next(*batch)) *this = {nullptr, nullptr};
  return *this;
}

Loader::Iterator Loader::begin() {
  // A loop over all epochs, once more: in other libraries each loop is an epoch.
  if (position() >= impl_->reader.end())
    impl_->context.logger().warn_once(
        "loader at its end",
        "this loop has no batches: the loader has handed out all of its {}; seek(0) begins again",
        count_text(options().epochs, "epoch"));
  Iterator first{this, std::make_shared<Batch>()};
  return ++first;
}

}  // namespace belfry
