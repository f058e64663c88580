// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "belfry/allreduce/mover.h"
#include "belfry/allreduce/sum_members.kernel.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/core/delay.h"
#include "belfry/core/error.h"
#include "belfry/device/pinned.h"

namespace belfry {
namespace {

enum CommKind : std::uint32_t {
  kParts = 1,
  kExchange,
  kSquares,
  kStatistics,
  kGather,
  kSum,
  kNorms
};

class SlicedMover : public Mover {
 public:
  SlicedMover(const FlatPlan& plan, Device& device, Communicator& comm, Control& control,
              double delay)
      : plan_(plan),
        device_(device),
        comm_(comm),
        control_(control),
        stream_(device.stream(1)),
        delay_seconds_(delay) {
    const auto n = static_cast<std::size_t>(comm.size());
    for (const Bucket& b : plan.buckets) {
      slices_.push_back(slice_of(b, comm.rank(), comm.size()));
      compact_.push_back(owned_);
      owned_ += slices_.back().blocks * kBlock;
      ready_.push_back(device.event(true));
      moved_.push_back(device.event());
      arrived_.push_back(device.event(true));
      stream_->record(*arrived_.back());  // nothing is under way yet
    }
    const LeafPlan& leaves = plan.leaves;
    awaited_.assign(plan.buckets.size(), 0);
    partials_.assign(n, 0);
    for (const LeafSource& s : leaves.sources) ++partials_[static_cast<std::size_t>(s.tower)];
    for (int slot = 0; slot < leaves.slots; ++slot) {
      gradients_.push_back(flat(plan.index.elements()));
      if (plan.unit_squares) unit_squares_.push_back(flat(plan.index.elements()));
    }
    param_ = flat(plan.index.elements());
    mean_ = flat(owned_);
    received_ = flat(owned_ * leaves.sources.size());
    if (plan.unit_squares) received_squares_ = flat(owned_ * leaves.sources.size());
    if (plan.keep_squares) square_ = flat(owned_);
    if (plan.ema) ema_ = flat(owned_);
    for (int k = 0; k < plan.states; ++k) states_.push_back(flat(owned_));
    parts_ = flat(n * part_bytes() / sizeof(float));
    stats_ = flat(plan.index.segments().size() * kStatFloats);
    if (plan.layerwise) norms_ = flat(plan.index.segments().size() * kNormFloats);
    if (plan.statistics || plan.layerwise)
      all_ = flat(n * plan.index.segments().size() * std::max(kStatFloats, kNormFloats));
    updated_ = device.event();
    gathered_ = device.event();
    make_tables();
  }
  ~SlicedMover() override {
    try {
      stream_->synchronize();
    } catch (...) {  // what an aborted group left queued fails once more
    }
  }

  float* gradient(int slot) override { return of(gradients_, slot); }
  float* unit_squares(int slot) override {
    return plan_.unit_squares ? of(unit_squares_, slot) : nullptr;
  }
  float* parameters() override { return param_.data<float>(); }
  DevicePart* part() override {
    return all_parts() + static_cast<std::ptrdiff_t>(comm_.rank()) * plan_.leaves.parts;
  }
  const DevicePart* parts() override { return all_parts(); }
  SegmentStats* statistics() override {
    return reinterpret_cast<SegmentStats*>(stats_.data<float>());
  }

  void start(std::int64_t update, bool) override {
    update_ = update;
    marked_.assign(plan_.buckets.size(), 0);
    issued_ = folded_ = measured_next_ = updated_next_ = 0;
    delayed_ = failed_ = false;
    awaited_.assign(plan_.buckets.size(), 0);  // what is recorded waits for all it reads
    device_.main().fill(stats_.raw(), 0, stats_.bytes());
    if (plan_.layerwise) device_.main().fill(norms_.raw(), 0, norms_.bytes());
  }

  void begin_exchange(const std::vector<char>& takes_part) override {
    if (plan_.leaves.summed && takes_part[static_cast<std::size_t>(comm_.rank())] == 0)
      device_.main().fill(gradient(0), 0, gradients_[0].bytes());  // counts as 0
    if (takes_part == takes_part_) return;
    takes_part_ = takes_part;
    device_.main().host_access(Touches().writes(host_tables_.at<void>(), tables_.bytes()));
    const bool summed = plan_.leaves.summed;
    for (std::size_t b = 0; b < slices_.size(); ++b)
      for (std::size_t k = 0; k < plan_.leaves.sources.size(); ++k) {
        const LeafSource& s = plan_.leaves.sources[k];
        const auto source = [&](std::vector<Tensor>& own, Tensor& in) -> const float* {
          if (!summed && takes_part[k] == 0) return nullptr;
          return !summed && s.tower == comm_.rank() ? of(own, s.slot) + slices_[b].first * kBlock
                                                    : in.data<float>() + k * owned_ + compact_[b];
        };
        const std::size_t at = table_at(b) + k * sizeof(float*);
        *host_tables_.at<const float*>(at) = source(gradients_, received_);
        if (plan_.unit_squares)
          *host_tables_.at<const float*>(at + squares_at()) =
              source(unit_squares_, received_squares_);
      }
    device_.main().copy(tables_.raw(), host_tables_.at<void>(), tables_.bytes());
  }

  void mark_bucket(int bucket) override {
    device_.main().record(*ready_[static_cast<std::size_t>(bucket)]);
  }

  void bucket_ready(int bucket) override {
    marked_[static_cast<std::size_t>(bucket)] = 1;
    for (; issued_ < marked_.size() && marked_[issued_] != 0; ++issued_) issue(issued_);
  }

  bool next_fold(Work& work) override {
    if (!std::exchange(delayed_, true)) delay(delay_seconds_);
    while (folded_ < slices_.size() && slices_[folded_].blocks == 0) ++folded_;
    if (folded_ == slices_.size()) return false;
    device_.main().wait(*moved_[folded_]);
    fill(work, folded_++);
    return true;
  }

  Stream& collectives() override { return *stream_; }
  void fail() override { failed_ = true; }
  bool any_failed() const override { return failed_; }
  void require_healthy() const override { comm_.require_healthy(); }

  const SegmentStats* gather_statistics() override {
    if (plan_.statistics) {
      gather(stats_, kStatistics);
    } else if (owned_ == 0) {
      device_.main().wait(*moved_[0]);  // no fold has waited for the records of all towers
    }
    const std::byte mine{static_cast<unsigned char>(failed_ ? 1 : 0)};
    for (const auto& theirs : control_.all_gather({&mine, 1}))
      failed_ = failed_ || theirs.at(0) != std::byte{0};
    return statistics();
  }

  SegmentNorms* norms() override { return reinterpret_cast<SegmentNorms*>(norms_.data<float>()); }
  const SegmentNorms* gather_norms() override {
    gather(norms_, kNorms);
    return norms();
  }

  bool next_measure(Work& work) override { return next(measured_next_, work); }
  bool next_update(Work& work) override { return next(updated_next_, work); }

  void finish(bool updated) override {
    if (updated) gather_parameters();
    device_.main().wait(*moved_.back());  // the next backward writes the gradients that were sent
    awaited_.assign(plan_.buckets.size(), 0);
  }

  void await_parameters(int bucket) override {
    for (std::size_t b = 0; b < awaited_.size(); ++b)
      if ((bucket < 0 || b == static_cast<std::size_t>(bucket)) && !std::exchange(awaited_[b], 1))
        device_.main().wait(*arrived_[b]);
  }

  void read(FlatArray what, int k, float* whole) override {
    if (what == FlatArray::parameter) {
      await_parameters(-1);
      if (comm_.rank() == 0) device_.main().fetch(whole, param_.raw(), param_.bytes());
      return;
    }
    for (std::size_t b = 0; b < slices_.size(); ++b)
      device_.main().fetch(whole + slices_[b].first * kBlock,
                           array(what, k).data<float>() + compact_[b],
                           slices_[b].blocks * kBlock * sizeof(float));
  }

  void write(FlatArray what, int k, const float* whole) override {
    const Settled settled(device_.main());
    if (what == FlatArray::parameter) {
      await_parameters(-1);
      device_.main().copy(param_.raw(), whole, param_.bytes());
    } else {
      for (std::size_t b = 0; b < slices_.size(); ++b)
        device_.main().copy(array(what, k).data<float>() + compact_[b],
                            whole + slices_[b].first * kBlock,
                            slices_[b].blocks * kBlock * sizeof(float));
    }
    device_.synchronize();
  }

 private:
  static constexpr std::size_t kStatFloats = sizeof(SegmentStats) / sizeof(float);
  static constexpr std::size_t kNormFloats = sizeof(SegmentNorms) / sizeof(float);

  // Everybody's entries of a table with an entry a segment: each has one owner, all others hold 0.
  void gather(Tensor& table, std::uint32_t kind) {
    device_.main().record(*updated_);
    stream_->wait(*updated_);
    comm_.all_gather(*stream_, table.raw(), all_.raw(), table.bytes(), {kind, -1, update_});
    const auto n = static_cast<std::size_t>(table.size());
    launch_elements(*stream_, n,
                    SumMembers{all_.data<float>(), n, static_cast<std::size_t>(comm_.size()),
                               table.data<float>()});
    stream_->record(*gathered_);
    device_.main().wait(*gathered_);
  }

  // The own slice of the next bucket in which there is one.
  bool next(std::size_t& bucket, Work& work) {
    while (bucket < slices_.size() && slices_[bucket].blocks == 0) ++bucket;
    if (bucket == slices_.size()) return false;
    fill(work, bucket++);
    return true;
  }

  Tensor flat(std::size_t n) {
    return Tensor::zeros(Shape{static_cast<std::int64_t>(n)}, DType::f32, device_);
  }
  static float* of(std::vector<Tensor>& tensors, int slot) {
    return tensors[static_cast<std::size_t>(slot)].data<float>();
  }
  Bucket slice(std::size_t b, int p) const { return slice_of(plan_.buckets[b], p, comm_.size()); }
  std::size_t part_bytes() const {
    return static_cast<std::size_t>(plan_.leaves.parts) * sizeof(DevicePart);
  }
  std::size_t source_of(int tower, int slot) const {
    std::size_t k = 0;
    for (int t = 0; t < tower; ++t)
      k += static_cast<std::size_t>(partials_[static_cast<std::size_t>(t)]);
    return std::min(k + static_cast<std::size_t>(slot), plan_.leaves.sources.size() - 1);
  }
  DevicePart* all_parts() { return reinterpret_cast<DevicePart*>(parts_.data<float>()); }

  // Of sources, one table a bucket; then those of their squares.
  std::size_t table_at(std::size_t b) const {
    return b * plan_.leaves.sources.size() * sizeof(float*);
  }
  std::size_t squares_at() const { return table_at(slices_.size()); }

  void make_tables() {
    const std::size_t bytes = (plan_.unit_squares ? 2 : 1) * squares_at();
    tables_ = Tensor::empty(Shape{static_cast<std::int64_t>(bytes)}, DType::u8, device_);
    host_tables_ = Pinned(device_, bytes);
    for (std::size_t b = 0; b < slices_.size(); ++b) {
      std::vector<float*> s;
      for (Tensor& t : states_) s.push_back(t.data<float>() + compact_[b]);
      state_tables_.push_back(std::move(s));
    }
  }

  void gather_parameters() {
    device_.main().record(*updated_);
    stream_->wait(*updated_);
    for (std::size_t b = slices_.size(); b-- > 0;) {  // what forward reads first
      const float* mine = param_.data<float>() + slices_[b].first * kBlock;
      move(
          b, kGather, [&](int) { return mine; }, [&](int) { return slices_[b].blocks; },
          [&](int p) { return param_.data<float>() + slice(b, p).first * kBlock; },
          [&](int p) { return slice(b, p).blocks; });
      stream_->record(*arrived_[b]);
    }
  }

  // One all-to-all of slices of bucket b; the own slice stays where it is.
  template <class From, class FromBlocks, class To, class ToBlocks>
  void move(std::size_t b, std::uint32_t kind, From from, FromBlocks from_blocks, To to,
            ToBlocks to_blocks) {
    std::vector<const void*> send;
    std::vector<void*> recv;
    std::vector<std::size_t> send_bytes, recv_bytes;
    for (int p = 0; p < comm_.size(); ++p) {
      const std::size_t on = p == comm_.rank() ? 0 : kBlock * sizeof(float);
      send.push_back(from(p));
      send_bytes.push_back(from_blocks(p) * on);
      recv.push_back(to(p));
      recv_bytes.push_back(to_blocks(p) * on);
    }
    comm_.exchange(*stream_, send, send_bytes, recv, recv_bytes,
                   {kind, static_cast<std::int32_t>(b), update_});
  }

  // This slot's slices to their owners; a tower without a sum there sends nothing.
  void exchange(std::size_t b, int slot, std::vector<Tensor>& out, Tensor& in, std::uint32_t kind) {
    const auto has = [&](int p) { return slot < partials_[static_cast<std::size_t>(p)]; };
    move(
        b, kind, [&](int p) { return of(out, slot) + slice(b, p).first * kBlock; },
        [&](int p) { return has(comm_.rank()) ? slice(b, p).blocks : 0; },
        [&](int p) { return in.data<float>() + source_of(p, slot) * owned_ + compact_[b]; },
        [&](int p) { return has(p) ? slices_[b].blocks : 0; });
  }

  // The transport's own sum of this bucket.
  void sum(std::size_t b) {
    std::vector<std::size_t> counts;
    for (int p = 0; p < comm_.size(); ++p) counts.push_back(slice(b, p).blocks * kBlock);
    if (!comm_.reduce_slices(*stream_, gradient(0) + plan_.buckets[b].first * kBlock,
                             received_.data<float>() + compact_[b], counts,
                             {kSum, static_cast<std::int32_t>(b), update_}))
      throw CommError("the transport has no sum of its own");
  }

  void issue(std::size_t b) {
    stream_->wait(*ready_[b]);
    if (b == 0)
      comm_.all_gather(*stream_, part(), all_parts(), part_bytes(), {kParts, -1, update_});
    if (plan_.leaves.summed) sum(b);
    for (int slot = 0; slot < plan_.leaves.partials && !plan_.leaves.summed; ++slot) {
      exchange(b, slot, gradients_, received_, kExchange);
      if (plan_.unit_squares) exchange(b, slot, unit_squares_, received_squares_, kSquares);
    }
    stream_->record(*moved_[b]);
  }

  Tensor& array(FlatArray what, int k) {
    switch (what) {
      case FlatArray::mean:
        return mean_;
      case FlatArray::square:
        return square_;
      case FlatArray::ema:
        return ema_;
      case FlatArray::parameter:
        return param_;
      case FlatArray::state:
        break;
    }
    return states_.at(static_cast<std::size_t>(k));
  }

  void fill(Work& w, std::size_t b) {
    w.first_block = slices_[b].first;
    w.blocks = slices_[b].blocks;
    w.origin = w.mean_origin = slices_[b].first * kBlock;
    const auto table = [at = table_at(b)](const std::uint8_t* base) {
      return reinterpret_cast<const float* const*>(base + at);
    };
    w.sources = table(tables_.data<std::uint8_t>());
    w.host_sources = table(host_tables_.at<std::uint8_t>());
    if (plan_.unit_squares) {
      w.square_in = table(tables_.data<std::uint8_t>() + squares_at());
      w.host_square_in = table(host_tables_.at<std::uint8_t>(squares_at()));
    }
    w.mean = mean_.data<float>() + compact_[b];
    w.square = plan_.keep_squares ? square_.data<float>() + compact_[b] : nullptr;
    w.param = param_.data<float>() + w.origin;
    w.ema = plan_.ema ? ema_.data<float>() + compact_[b] : nullptr;
    w.state = state_tables_[b].data();
  }

  FlatPlan plan_;
  Device& device_;
  Communicator& comm_;
  Control& control_;
  std::unique_ptr<Stream> stream_;  // communication
  double delay_seconds_;
  std::vector<Bucket> slices_;        // this tower's part of each bucket
  std::vector<std::size_t> compact_;  // where it starts in this tower's own arrays
  std::size_t owned_ = 0;
  std::vector<int> partials_;                     // sums of each tower
  std::vector<Tensor> gradients_, unit_squares_;  // by slot
  Tensor param_, mean_, square_, ema_, received_, received_squares_, parts_, stats_, norms_, all_;
  std::vector<Tensor> states_;
  Tensor tables_;
  Pinned host_tables_;
  std::vector<char> takes_part_;  // of the tables
  std::vector<std::vector<float*>> state_tables_;
  std::vector<std::unique_ptr<Event>> ready_, moved_, arrived_;  // of each bucket
  std::unique_ptr<Event> updated_, gathered_;
  std::vector<char> marked_, awaited_;
  std::size_t issued_ = 0, folded_ = 0, measured_next_ = 0, updated_next_ = 0;
  std::int64_t update_ = 0;
  bool delayed_ = false, failed_ = false;
};

}  // namespace

std::unique_ptr<Mover> make_sliced_mover(const FlatPlan& plan, Device& device, Communicator& comm,
                                         Control& control, double delay_seconds) {
  return std::make_unique<SlicedMover>(plan, device, comm, control, delay_seconds);
}

}  // namespace belfry
