// SPDX-License-Identifier: MIT
// What the parts of the simulated runtime share.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belfry/tests/simcuda/node.h"

namespace belfry::sim {

struct NcclState;

// What belongs to one thread of the host.
struct Local {
  std::uint64_t generation = 0;
  int device = 0;
  cudaError_t last = cudaSuccess;
  const void* kernel = nullptr;  // bound by belfry_sim_bind_kernel
  KernelCall call{};
  std::vector<Range> host_touches{};
  struct {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
  } pushed{};
  std::uint64_t seen = 0, futile = 0;                    // polls without any progress in between
  int group = 0;                                         // depth of ncclGroupStart
  std::vector<GroupCall> pending{};                      // put on streams at the group's end
  std::vector<std::function<ncclResult_t()>> joining{};  // inits that wait for the group's end
};

class State {
 public:
  State(int count, const SchedulerOptions& options);
  ~State();

  Scheduler scheduler;
  Memory memory;
  const int devices;
  CudaCounts counts;
  std::uint64_t fail_malloc = 0;
  cudaError_t injected = cudaErrorUnknown, broken = cudaSuccess;
  bool peers = true;
  // Never freed while the simulation lasts, so that use after destruction shows.
  std::deque<CUstream_st> streams;
  std::deque<CUevent_st> events;
  std::deque<std::unique_ptr<CUgraph_st>> graphs;
  std::deque<std::unique_ptr<CUgraphExec_st>> execs;
  std::map<int, CUstream_st*> null_streams;  // by device
  std::map<int, std::vector<int>> branches;  // of graphs: their queues, by device
  // The last collective on each queue of a device: done when the mark is.
  std::map<int, std::map<int, std::shared_ptr<Mark>>> collectives;
  std::map<int, VectorClock> allocated;      // when memory of a device was last taken or given back
  std::map<const void*, int> shared_memory;  // of kernels, by cudaFuncSetAttribute
  std::unique_ptr<NcclState> nccl;

  Local& local();
  const std::string* name(const std::string& text) { return scheduler.name(text); }
  // Reports and returns the error.
  cudaError_t refuse(cudaError_t error, const std::string& text) {
    scheduler.report(text);
    return error;
  }
  cudaError_t put(CUstream_st* stream, Node node);  // or into the stream's capture
  void enqueue(int queue, int device, const Node& node, std::shared_ptr<Mark> mark);
  CUstream_st* usable(cudaStream_t stream, const char* call);  // null: not a stream
  CUstream_st* null_stream(int device);
  std::set<const void*> alive;  // streams, events, graphs: handles that are not destroyed
  // A call that may wait for devices: refused while this thread captures, and reported in a group.
  cudaError_t may_wait(const char* call, CUstream_st* stream = nullptr);
  void may_allocate(const char* call, int device);
  void wait_device(int device, bool counted);
  void poll();  // the calling thread asks again and again
};

}  // namespace belfry::sim
