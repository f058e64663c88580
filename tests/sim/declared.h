// SPDX-License-Identifier: MIT
// Devices that hold every operation to the ranges it declares: see DeclaredPlatform.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "belfry/tests/sim/platform.h"

namespace belfry::sim {

// The memory that devices have handed out, and operations that touched what they do not declare.
class DeclaredMemory {
 public:
  void add(void* block, std::size_t bytes);
  void remove(void* block);
  // Host memory that the host is about to write: hidden like a block from then on, until freed.
  void announce(const Touches& touches);
  void freed(std::uintptr_t lo, std::uintptr_t hi);
  // Runs `task` while every byte that it does not declare as read holds something else; afterwards
  // bytes that it did not write are as before. So an undeclared read changes its result, and an
  // undeclared write is reported here. So is a kernel that reads host memory which nobody has
  // announced or written on a stream.
  void run(const OwnedTask& task, const std::string& what, bool kernel);
  const std::vector<std::string>& reports() const { return reports_; }
  std::uint64_t operations() const { return operations_; }

 private:
  struct Block {
    std::byte* data;
    std::vector<std::byte> before, hidden;
  };
  void hide(Block& block, const std::vector<Range>& ranges);
  void restore(const Block& block, const std::vector<Range>& ranges, const std::string& what);
  bool known(const Range& range) const;
  std::map<std::byte*, std::size_t> blocks_, host_;
  std::map<std::uintptr_t, std::uintptr_t> written_;  // host memory, by streams
  std::vector<std::string> reports_;
  std::uint64_t operations_ = 0;
};

// CPU devices that run at submission under DeclaredMemory::run, with hosts that take turns. Results
// equal to those of the plain devices, and no report, mean that declared ranges are complete.
class DeclaredPlatform : public SimPlatform {
 public:
  DeclaredPlatform() : SimPlatform(SchedulerOptions{}) {
    scheduler().on_free = [m = memory_](auto lo, auto hi) { m->freed(lo, hi); };
  }
  std::unique_ptr<Device> device(int index, int threads) override;
  const DeclaredMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<DeclaredMemory> memory_ = std::make_shared<DeclaredMemory>();
};

}  // namespace belfry::sim
