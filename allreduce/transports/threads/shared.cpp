// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <utility>

#include "belfry/allreduce/transports/threads/group_internal.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/core/delay.h"

namespace belfry::threads {
namespace {

// 16 blocks are 256 KiB a source: small enough to share out, large enough that a claim costs
// nothing.
constexpr std::size_t kChunkBlocks = 16;

struct Chunk {
  std::size_t first, blocks;
  int bucket;
};

std::vector<Chunk> cut(const FlatPlan& plan) {
  std::vector<Chunk> out;
  const std::size_t fair = plan.index.blocks() / (4 * static_cast<std::size_t>(plan.towers));
  const std::size_t size = std::clamp<std::size_t>(fair, 1, kChunkBlocks);
  for (std::size_t b = 0; b < plan.buckets.size(); ++b)
    for (std::size_t at = 0; at < plan.buckets[b].blocks; at += size)
      out.push_back({plan.buckets[b].first + at, std::min(size, plan.buckets[b].blocks - at),
                     static_cast<int>(b)});
  return out;
}

}  // namespace

class SharedArrays {
 public:
  SharedArrays(const FlatPlan& p, Device& device, Host& h, double delay)
      : plan(p),
        host(h),
        delay_seconds(delay),
        chunks(cut(p)),
        ready(p.buckets.size()),
        parts(static_cast<std::size_t>(p.towers * p.leaves.parts)),
        stats(p.index.segments().size()),
        norms(p.layerwise ? p.index.segments().size() : 0),
        gradients(static_cast<std::size_t>(p.towers * p.leaves.slots)),
        unit_squares(static_cast<std::size_t>(p.towers * p.leaves.slots)) {
    param = flat(device);
    if (!p.mean_in_place) mean = flat(device);
    if (p.keep_squares) square = flat(device);
    if (p.ema) ema = flat(device);
    for (int k = 0; k < p.states; ++k) states.push_back(flat(device));
  }
  Tensor flat(Device& device) const {
    return Tensor::zeros(Shape{static_cast<std::int64_t>(plan.index.elements())}, DType::f32,
                         device);
  }

  FlatPlan plan;
  Host& host;
  double delay_seconds;
  std::vector<Chunk> chunks;
  std::vector<std::atomic<int>> ready;  // towers whose gradient of the bucket is complete
  std::atomic<std::size_t> fold_next{0}, measure_next{0}, update_next{0};
  std::atomic<int> ended{0};  // towers that have marked every bucket
  std::atomic<bool> failed{false};
  bool whole = false;
  std::vector<DevicePart> parts;
  std::vector<SegmentStats> stats;
  std::vector<SegmentNorms> norms;
  std::vector<Tensor> gradients, unit_squares;  // LeafPlan::slots a tower
  Tensor param, mean, square, ema;
  std::vector<Tensor> states;
};

namespace {

class SharedMover : public Mover {
 public:
  SharedMover(std::shared_ptr<SharedArrays> arrays, Group& group, int rank, Device& device)
      : a_(std::move(arrays)), group_(group), rank_(rank), device_(device) {
    for (int slot = 0; slot < a_->plan.leaves.slots; ++slot) {
      a_->gradients[place(rank_, slot)] = a_->flat(device);
      if (a_->plan.unit_squares) a_->unit_squares[place(rank_, slot)] = a_->flat(device);
    }
    if (a_->plan.mean_in_place) a_->mean = a_->gradients[place(rank_, 0)];
    scratch_ =
        Tensor::zeros(Shape{static_cast<std::int64_t>(kChunkBlocks * kBlock)}, DType::f32, device);
    marked_all_ = device.event();
    const std::size_t n = a_->plan.leaves.sources.size();
    sources_.resize(n);
    square_in_.resize(n);
    for (Tensor& s : a_->states) states_.push_back(s.data<float>());
  }
  float* gradient(int slot) override { return a_->gradients[place(rank_, slot)].data<float>(); }
  float* unit_squares(int slot) override {
    return a_->plan.unit_squares ? a_->unit_squares[place(rank_, slot)].data<float>() : nullptr;
  }
  float* parameters() override { return a_->param.data<float>(); }
  DevicePart* part() override {
    return a_->parts.data() + static_cast<std::ptrdiff_t>(rank_) * a_->plan.leaves.parts;
  }
  const DevicePart* parts() override { return a_->parts.data(); }
  SegmentStats* statistics() override { return a_->stats.data(); }

  void start(std::int64_t, bool whole) override {
    wrote_ = false;          // the host has waited for the outcome of the last update
    if (rank_ != 0) return;  // the others touch these only after the record has been exchanged
    for (auto& r : a_->ready) r.store(0, std::memory_order_relaxed);
    a_->fold_next.store(0, std::memory_order_relaxed);
    a_->measure_next.store(0, std::memory_order_relaxed);
    a_->update_next.store(0, std::memory_order_relaxed);
    a_->ended.store(0, std::memory_order_relaxed);
    a_->failed.store(false, std::memory_order_relaxed);
    a_->whole = whole;
  }

  void begin_exchange(const std::vector<char>& takes_part) override {
    device_.main().host_access(Touches()
                                   .writes(sources_.data(), sources_.size() * sizeof(float*))
                                   .writes(square_in_.data(), square_in_.size() * sizeof(float*)));
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      const LeafSource& source = a_->plan.leaves.sources[k];
      const std::size_t at = place(source.tower, source.slot);
      sources_[k] = takes_part[k] != 0 ? a_->gradients[at].data<float>() : nullptr;
      if (a_->plan.unit_squares)
        square_in_[k] = takes_part[k] != 0 ? a_->unit_squares[at].data<float>() : nullptr;
    }
    marked_ = 0;
    delayed_ = false;
  }

  void mark_bucket(int) override {}
  void bucket_ready(int bucket) override {
    const bool last = ++marked_ == static_cast<int>(a_->ready.size());
    device_.main().run({}, [a = a_.get(), bucket, last] {
      a->host.publish(&a->ready[static_cast<std::size_t>(bucket)]);
      if (last) a->host.publish(&a->ended);
      a->ready[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_acq_rel);
      if (last) a->ended.fetch_add(1, std::memory_order_acq_rel);
      a->host.notify();
    });
    if (last) device_.main().record(*marked_all_);
  }

  bool next_fold(Work& work) override {
    if (!std::exchange(delayed_, true)) {
      marked_all_->wait_host();  // some executors run only what somebody waits for
      delay(a_->delay_seconds);
    }
    const std::size_t c = a_->fold_next.fetch_add(1, std::memory_order_relaxed);
    if (c >= a_->chunks.size()) return false;
    const Chunk& chunk = a_->chunks[c];
    const int n = a_->plan.towers;
    const std::atomic<int>& count =
        a_->whole ? a_->ended : a_->ready[static_cast<std::size_t>(chunk.bucket)];
    a_->host.wait(
        [&] { return count.load(std::memory_order_acquire) == n || group_.comm.aborted(); });
    if (count.load(std::memory_order_acquire) != n) throw CommError("the group was aborted");
    a_->host.observe(&count);
    fill(work, chunk);
    return true;
  }

  Stream& collectives() override { return device_.main(); }
  void fail() override { a_->failed.store(true, std::memory_order_release); }
  void require_healthy() const override {
    if (group_.comm.aborted()) throw CommError("the group was aborted");
  }
  bool any_failed() const override { return a_->failed.load(std::memory_order_acquire); }

  const SegmentStats* gather_statistics() override {
    settle();
    group_.control.meet(rank_, {});
    return a_->stats.data();
  }

  SegmentNorms* norms() override { return a_->norms.data(); }
  const SegmentNorms* gather_norms() override {
    settle();
    group_.control.meet(rank_, {});
    return a_->norms.data();
  }

  bool next_measure(Work& work) override { return claim(a_->measure_next, work); }
  bool next_update(Work& work) override { return claim(a_->update_next, work); }

  void finish(bool) override {}  // the tower waits for the outcome next; the step's end joins all
  void await_parameters(int) override {}

  void read(FlatArray what, int k, float* whole) override {
    const Tensor& from = array(what, k);
    if (rank_ == 0) device_.main().fetch(whole, from.raw(), from.bytes());
  }
  const float* readable(FlatArray what, int k) override {
    const Tensor& from = array(what, k);
    if (!device_.host_memory()) return nullptr;
    // Nothing is queued: updates, evaluations and write() end with a wait.
    device_.main().host_access(Touches().reads(from.raw(), from.bytes()));
    return from.data<float>();
  }
  void write(FlatArray what, int k, const float* whole) override {
    const Tensor& to = array(what, k);
    if (rank_ != 0) return;
    device_.main().copy(to.raw(), whole, to.bytes());
    device_.main().synchronize();
  }

 private:
  std::size_t place(int tower, int slot) const {
    return static_cast<std::size_t>(tower * a_->plan.leaves.slots + slot);
  }

  bool claim(std::atomic<std::size_t>& next, Work& work) {
    const std::size_t c = next.fetch_add(1, std::memory_order_relaxed);
    if (c >= a_->chunks.size()) return false;
    fill(work, a_->chunks[c]);
    return true;
  }

  // Others read next what this tower has written into the shared arrays since the last time.
  void settle() {
    if (std::exchange(wrote_, false)) device_.main().synchronize();
  }

  Tensor& array(FlatArray what, int k) {
    switch (what) {
      case FlatArray::parameter:
        return a_->param;
      case FlatArray::mean:
        return a_->mean;
      case FlatArray::square:
        return a_->square;
      case FlatArray::ema:
        return a_->ema;
      case FlatArray::state:
        break;
    }
    return a_->states.at(static_cast<std::size_t>(k));
  }

  void fill(Work& w, const Chunk& chunk) {
    wrote_ = !a_->whole;  // else the verdict is still to come, which the host waits for
    w.origin = 0;
    w.first_block = chunk.first;
    w.blocks = chunk.blocks;
    w.sources = sources_.data();
    w.square_in = a_->plan.unit_squares ? square_in_.data() : nullptr;
    w.host_sources = w.sources;
    w.host_square_in = w.square_in;
    // A mean that is used at once stays in cache: writing and reading it would move 2 arrays more.
    const bool scratch = a_->whole && !a_->plan.mean_in_place;
    w.mean = (scratch ? scratch_ : a_->mean).data<float>();
    w.mean_origin = scratch ? chunk.first * kBlock : 0;
    w.square = a_->plan.keep_squares ? a_->square.data<float>() : nullptr;
    w.param = a_->param.data<float>();
    w.ema = a_->plan.ema ? a_->ema.data<float>() : nullptr;
    w.state = states_.data();
  }

  std::shared_ptr<SharedArrays> a_;
  Group& group_;
  int rank_;
  Device& device_;
  int marked_ = 0;
  bool delayed_ = false, wrote_ = false;
  std::unique_ptr<Event> marked_all_;
  Tensor scratch_;
  std::vector<const float*> sources_, square_in_;
  std::vector<float*> states_;
};

}  // namespace

std::shared_ptr<SharedArrays> make_shared_arrays(const FlatPlan& plan, Device& device, Host& host,
                                                 double delay_seconds) {
  return std::make_shared<SharedArrays>(plan, device, host, delay_seconds);
}

std::unique_ptr<Mover> make_shared_mover(std::shared_ptr<SharedArrays> arrays, Group& group,
                                         int rank, Device& device) {
  return std::make_unique<SharedMover>(std::move(arrays), group, rank, device);
}

}  // namespace belfry::threads
