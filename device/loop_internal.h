// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <variant>
#include <vector>

#include "belfry/device/device.h"

namespace belfry {

struct LoopCopy {
  void* dst;
  const void* src;
  std::size_t bytes;
};
struct LoopFill {
  void* dst;
  int byte;
  std::size_t bytes;
};
struct LoopTask {
  std::shared_ptr<void> object;
  void (*invoke)(void*);
  Touches touches;
};

// One operation of an iteration. A kernel's functor lies in its program.
struct LoopOp {
  std::int64_t iteration;
  std::variant<KernelCall, LoopCopy, LoopFill, std::unique_ptr<LoopTask>> work;
};

const char* name_of(const LoopOp& op) noexcept;

// What an iteration reads or writes: bytes [lo, hi).
struct LoopAccess {
  std::uintptr_t lo, hi;
  std::int64_t iteration;
  const char* what;  // name of the operation
  bool write;
};

// All operations of a loop: iteration i is in lane i mod lanes, in order. Not changed once
// recorded: queues and graphs share it.
struct LoopProgram {
  std::vector<std::vector<LoopOp>> lanes;
  std::pmr::monotonic_buffer_resource functors;
  std::size_t operations = 0;
  bool carried = false;
  Touches touches;  // of the whole loop
  std::string name;
  std::int64_t iterations = 0;
};

// "loop 'name'", or "a loop of 8 iterations".
std::string title(const LoopProgram& program);
// Throws the error of an iteration again with both named; a foreign one nested in a TowerError.
[[noreturn]] void rethrow_of(const LoopProgram& program, std::int64_t iteration,
                             std::exception_ptr error);

// What knows which memory a recorded pass needs: the tape, which is of a higher layer and says so
// once, before main().
struct PassWatch {
  bool (*open)() = nullptr;  // whether this thread has a pass whose backward is to come
  // The op of such a pass that used some of these bytes; null: none.
  const char* (*user_of)(const void* data, std::size_t bytes) = nullptr;
};
PassWatch& pass_watch() noexcept;

constexpr int kMostLanes = 256;  // host threads of a device that share a loop

// The memory of a lane. Knows which iteration a block belongs to; the next one in the lane may have
// it again when it is given back. One thread.
class LaneArena : public Arena {
 public:
  // Over `outer`, which it keeps, or `own`.
  LaneArena(std::shared_ptr<Arena> outer, Arena& own);
  void* take(std::size_t bytes) override;
  void give_back(void* p, std::size_t bytes) noexcept override { from_->give_back(p, bytes); }
  ArenaStats stats() const override { return from_->stats(); }
  void set_iteration(std::int64_t iteration) noexcept { iteration_ = iteration; }
  // The iteration that took the block which holds this address last; -1 where there is none.
  std::int64_t owner(std::uintptr_t address) const;

 private:
  struct Block {
    std::uintptr_t end;
    std::int64_t iteration;
  };
  std::shared_ptr<Arena> outer_, from_;
  std::int64_t iteration_ = 0;
  std::map<std::uintptr_t, Block> blocks_;
};

// Throws DeviceError when two iterations are not independent. Sorts the list.
void require_independent(std::vector<LoopAccess>& accesses);
// An iteration touches memory that another one has made.
[[noreturn]] void throw_dependent(const LoopAccess& access, std::int64_t owner);
// The ranges of all accesses, joined where they meet.
Touches touches_of(std::vector<LoopAccess>& accesses);

// Of the CPU's production streams: operations run where they are submitted.
bool runs_at_submission(const Stream& stream);
// Runs a program on host threads: one each lane, or all of `threads` in each operation of a carried
// one. Throws the error of the lowest iteration.
void run_lanes(const LoopProgram& program, int threads);
// The lane that this host thread runs, -1: none. Library handles are one a lane.
int loop_lane() noexcept;

}  // namespace belfry
