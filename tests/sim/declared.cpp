// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/declared.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "belfry/device/use_stream.h"

namespace belfry::sim {
namespace {

constexpr std::byte kFlip{0x5A};
constexpr std::size_t kWord = 4;  // a word that is written keeps its hidden value once in 2^32

std::uintptr_t address(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); }

bool inside(const std::vector<Range>& ranges, std::uintptr_t at, bool write) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [=](const Range& r) { return r.write == write && r.lo <= at && at < r.hi; });
}

class DeclaredArena : public Arena {
 public:
  explicit DeclaredArena(std::shared_ptr<DeclaredMemory> memory) : memory_(std::move(memory)) {}
  ~DeclaredArena() override {
    for (const auto& [block, bytes] : taken_) {
      memory_->remove(block);
      std::free(block);
    }
  }
  void* take(std::size_t bytes) override {
    const std::size_t size = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
    stats_.live_bytes += size;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    auto& list = free_[size];
    if (!list.empty()) {
      void* block = list.back();
      list.pop_back();
      return block;
    }
    ++stats_.system_requests;
    stats_.reserved_bytes += size;
    void* block = std::aligned_alloc(64, size);
    std::memset(block, 0xFF, size);
    taken_[block] = size;
    memory_->add(block, size);
    return block;
  }
  void give_back(void* block, std::size_t) noexcept override {
    stats_.live_bytes -= taken_[block];
    free_[taken_[block]].push_back(block);
  }
  ArenaStats stats() const override { return stats_; }

 private:
  std::shared_ptr<DeclaredMemory> memory_;
  std::map<void*, std::size_t> taken_;
  std::map<std::size_t, std::vector<void*>> free_;
  ArenaStats stats_;
};

class DeclaredStream : public QueuedStream {
 public:
  DeclaredStream(std::shared_ptr<DeclaredMemory> memory, DeviceId device, int threads)
      : QueuedStream(device, threads), memory_(std::move(memory)) {}
  void record(Event& event) override { dynamic_cast<CpuEvent&>(event).set_recorded(); }
  void wait(const Event& event) override {
    dynamic_cast<const CpuEvent&>(event).require_recorded();
  }
  void launch(const KernelCall& call) override {
    what_ = call.name;
    kernel_ = true;
    QueuedStream::launch(call);
  }
  void synchronize() override {}
  void host_access(const Touches& touches) override { memory_->announce(touches); }

 protected:
  void push(OwnedTask task) override {
    const std::string what = what_.empty() ? "task" : what_;
    what_.clear();
    memory_->run(task, what, std::exchange(kernel_, false));
  }

 private:
  std::shared_ptr<DeclaredMemory> memory_;
  std::string what_;
  bool kernel_ = false;
};

class DeclaredDevice : public Device {
 public:
  DeclaredDevice(std::shared_ptr<DeclaredMemory> memory, int index, int threads)
      : memory_(std::move(memory)),
        id_{Backend::cpu, index},
        threads_(threads),
        arena_(memory_),
        pinned_(memory_),
        main_(memory_, id_, threads) {}
  DeviceId id() const noexcept override { return id_; }
  std::unique_ptr<Stream> stream(int) override {
    return std::make_unique<DeclaredStream>(memory_, id_, threads_);
  }
  std::unique_ptr<Event> event(bool external) override {
    return std::make_unique<CpuEvent>(external);
  }
  Arena& arena(MemoryKind kind) override { return kind == MemoryKind::pinned ? pinned_ : arena_; }
  Stream& main() override {
    Stream* const used = stream_in_use(*this);
    return used != nullptr ? *used : main_;
  }
  int threads() const noexcept override { return threads_; }
  void set_threads(int) override {}
  bool host_memory() const noexcept override { return true; }
  void synchronize() override {}
  void bind_thread() override { bind_cpu_thread(threads_); }

 private:
  std::shared_ptr<DeclaredMemory> memory_;
  DeviceId id_;
  int threads_;
  DeclaredArena arena_, pinned_;
  DeclaredStream main_;
};

}  // namespace

void DeclaredMemory::add(void* block, std::size_t bytes) {
  blocks_[static_cast<std::byte*>(block)] = bytes;
}

void DeclaredMemory::remove(void* block) { blocks_.erase(static_cast<std::byte*>(block)); }

void DeclaredMemory::announce(const Touches& touches) {
  for (const Range& r : ranges_of(touches)) {
    auto* const data = reinterpret_cast<std::byte*>(r.lo);
    const bool tables = r.write && r.lo % kWord == 0 && (r.hi - r.lo) % kWord == 0;
    if (!tables || host_.count(data) != 0) continue;
    const bool of_device = std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& b) {
      return address(b.first) < r.hi && r.lo < address(b.first) + b.second;
    });
    if (!of_device) host_[data] = r.hi - r.lo;
  }
}

void DeclaredMemory::freed(std::uintptr_t lo, std::uintptr_t hi) {
  std::erase_if(host_,
                [=](const auto& b) { return lo <= address(b.first) && address(b.first) < hi; });
  written_.erase(written_.lower_bound(lo), written_.lower_bound(hi));
}

bool DeclaredMemory::known(const Range& range) const {
  const auto holds = [&](const std::map<std::byte*, std::size_t>& blocks) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& b) {
      return address(b.first) <= range.lo && range.hi <= address(b.first) + b.second;
    });
  };
  return holds(blocks_) || holds(host_) ||
         std::any_of(written_.begin(), written_.end(), [&](const auto& w) {
           return w.first < range.hi && range.lo < w.second;  // by several, perhaps
         });
}

void DeclaredMemory::hide(Block& block, const std::vector<Range>& ranges) {
  const std::size_t bytes = block.before.size();
  block.hidden = block.before;
  for (std::byte& b : block.hidden) b ^= kFlip;
  const std::uintptr_t begin = address(block.data), end = begin + bytes;
  for (const Range& r : ranges) {
    const std::uintptr_t lo = std::max(r.lo, begin), hi = std::min(r.hi, end);
    if (r.write || lo >= hi) continue;
    std::memcpy(block.hidden.data() + (lo - begin), block.before.data() + (lo - begin), hi - lo);
  }
  std::memcpy(block.data, block.hidden.data(), bytes);
}

void DeclaredMemory::restore(const Block& block, const std::vector<Range>& ranges,
                             const std::string& what) {
  bool reported = false;
  for (std::size_t w = 0; w < block.before.size(); w += kWord) {
    if (std::memcmp(block.data + w, block.hidden.data() + w, kWord) == 0) {
      std::memcpy(block.data + w, block.before.data() + w, kWord);
      continue;
    }
    for (std::size_t i = w; i < w + kWord; ++i) {
      if (inside(ranges, address(block.data + i), true)) continue;
      if (block.data[i] != block.hidden[i] && !std::exchange(reported, true))
        reports_.push_back(what + " writes what it does not declare: byte " + std::to_string(i) +
                           " of a block of " + std::to_string(block.before.size()));
      block.data[i] = block.before[i];
    }
  }
}

void DeclaredMemory::run(const OwnedTask& task, const std::string& what, bool kernel) {
  ++operations_;
  const std::vector<Range> ranges = ranges_of(task.touches);
  std::vector<Block> blocks;
  for (const Range& r : ranges) {
    if (kernel && !r.write && !known(r))
      reports_.push_back(what + " reads host memory unannounced");
    if (r.write) written_[r.lo] = std::max(written_[r.lo], r.hi);
  }
  for (const auto* of : {&blocks_, &host_})
    for (const auto& [data, bytes] : *of) {
      blocks.push_back({data, {data, data + bytes}, {}});
      hide(blocks.back(), ranges);
    }
  std::exception_ptr error;
  try {
    task();
  } catch (...) {
    error = std::current_exception();
  }
  for (const Block& block : blocks) restore(block, ranges, what);
  if (error) std::rethrow_exception(error);
}

std::unique_ptr<Device> DeclaredPlatform::device(int index, int threads) {
  return std::make_unique<DeclaredDevice>(memory_, index, threads);
}

}  // namespace belfry::sim
