// SPDX-License-Identifier: MIT
// A CUDA runtime, NCCL and cuBLASLt for tests on machines without GPUs. Linking belfry_simcuda
// defines the vendors' own functions; they work on the simulation that is active.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/tests/sim/host.h"

namespace belfry::sim {

class State;

// What a program has done. `live` things end with the call that frees them.
struct CudaCounts {
  std::uint64_t mallocs = 0, frees = 0;                // cudaMalloc, cudaFree
  std::uint64_t pinned_mallocs = 0, pinned_frees = 0;  // of host memory
  std::uint64_t pageable_copies = 0;  // asynchronous copies of pageable memory, which wait
  std::uint64_t blocking_copies = 0;  // cudaMemcpy
  std::uint64_t launches = 0, matmuls = 0, collectives = 0, graph_launches = 0;
  std::int64_t live_blocks = 0, live_pinned = 0, live_streams = 0, live_events = 0;
  std::int64_t live_graphs = 0, live_communicators = 0, live_blas = 0;
};

// The simulated machine. Exactly one is active, from its construction to its end; without one every
// call fails. What a real machine would do wrong silently, or only sometimes, is a report of the
// scheduler. A call that the scheduler fails returns an error and throws nothing.
class SimCuda {
 public:
  explicit SimCuda(int devices, const SchedulerOptions& options = {});
  ~SimCuda();
  SimCuda(const SimCuda&) = delete;
  SimCuda& operator=(const SimCuda&) = delete;
  static SimCuda* active();

  Scheduler& scheduler();
  const std::vector<std::string>& reports() { return scheduler().reports(); }
  std::unique_ptr<Host> host() { return make_sim_host(scheduler()); }

  void limit_memory(std::size_t bytes);  // of each device
  void fail_malloc(std::uint64_t nth);   // the n-th cudaMalloc from the start
  void fail_with(cudaError_t error);     // what SchedulerOptions::fail_call makes a call return
  void break_device(cudaError_t error);  // from now on every CUDA call returns this
  void without_peers();                  // no device can access another's memory
  // The n-th collective (from 1) of every communicator never ends, and ncclCommGetAsyncError says
  // `error` on all its ranks from then on.
  void break_collective(std::uint64_t nth, ncclResult_t error);

  void run_rest();  // what is still queued and can run: a race with it shows only then
  const CudaCounts& counts() const;
  std::string leaks() const;  // "" when nothing is live
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Puts the work of a library that is replaced in tests on a stream: `body` runs with the memory of
// `touches` open, like a kernel.
cudaError_t submit(cudaStream_t stream, const std::string& what, const Touches& touches,
                   std::function<void()> body);

}  // namespace belfry::sim

// Called by the product, which sees them as weak symbols that are null without a simulator.
extern "C" {
// The host body of the kernel that this thread launches next.
void belfry_sim_bind_kernel(const void* kernel, const belfry::KernelCall& call);
// The ranges of the cudaLaunchHostFunc that this thread calls next.
void belfry_sim_bind_host_function(const belfry::Touches& touches);
// The calling thread touches memory itself.
void belfry_sim_host_access(const belfry::Touches& touches);
}
