// SPDX-License-Identifier: MIT
// The iterations of a loop on the threads of a CPU device.
#include <omp.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cstring>
#include <exception>
#include <limits>
#include <typeinfo>

#include "belfry/device/cpu/streams_internal.h"
#include "belfry/device/loop_internal.h"

namespace belfry {
namespace {

thread_local int running_lane = -1;

struct Failure {
  std::int64_t iteration = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr error;
};

// A lane as one thread runs it: library calls in it have one thread, floats the caller's mode.
class InLane {
 public:
  InLane(int lane, [[maybe_unused]] unsigned mode)
      : before_(running_lane), threads_(omp_get_max_threads()) {
    running_lane = lane;
    omp_set_num_threads(1);
#if defined(__SSE2__)
    mode_ = _mm_getcsr();
    _mm_setcsr(mode);
#endif
  }
  ~InLane() {
    running_lane = before_;
    omp_set_num_threads(threads_);
#if defined(__SSE2__)
    _mm_setcsr(mode_);
#endif
  }
  InLane(const InLane&) = delete;
  InLane& operator=(const InLane&) = delete;

 private:
  int before_, threads_;
  unsigned mode_ = 0;
};

void run(const LoopOp& op, int threads) {
  if (const auto* call = std::get_if<KernelCall>(&op.work))
    CpuStream::run_kernel(*call, threads);
  else if (const auto* copy = std::get_if<LoopCopy>(&op.work))
    std::memmove(copy->dst, copy->src, copy->bytes);
  else if (const auto* fill = std::get_if<LoopFill>(&op.work))
    std::memset(fill->dst, fill->byte, fill->bytes);
  else if (const auto* task = std::get_if<std::unique_ptr<LoopTask>>(&op.work))
    (*task)->invoke((*task)->object.get());
}

// What follows a failed operation in its lane does not run.
Failure run_lane(const std::vector<LoopOp>& ops, int lane, unsigned mode) {
  const InLane in(lane, mode);
  for (const LoopOp& op : ops) {
    try {
      run(op, 1);
    } catch (...) {
      return {op.iteration, std::current_exception()};
    }
  }
  return {};
}

}  // namespace

int loop_lane() noexcept { return running_lane; }

bool runs_at_submission(const Stream& stream) { return typeid(stream) == typeid(InPlaceStream); }

void run_lanes(const LoopProgram& program, int threads) {
  if (program.carried) {
    for (const LoopOp& op : program.lanes[0]) {
      try {
        run(op, threads);
      } catch (...) {
        rethrow_of(program, op.iteration, std::current_exception());
      }
    }
    return;
  }
  unsigned mode = 0;
#if defined(__SSE2__)
  mode = _mm_getcsr();
#endif
  const int lanes = static_cast<int>(program.lanes.size());
  std::vector<Failure> failures(program.lanes.size());
#pragma omp parallel for num_threads(lanes) schedule(static, 1)
  for (int lane = 0; lane < lanes; ++lane) {
    const auto k = static_cast<std::size_t>(lane);
    failures[k] = run_lane(program.lanes[k], lane, mode);
  }
  const Failure* lowest = &failures[0];
  for (const Failure& f : failures)
    if (f.iteration < lowest->iteration) lowest = &f;
  if (lowest->error) rethrow_of(program, lowest->iteration, lowest->error);
}

}  // namespace belfry
