// SPDX-License-Identifier: MIT
#pragma once
#include <thread>
#include <utility>
#include <vector>

#include "belfry/tests/simcuda/state.h"

struct CUgraph_st {
  CUstream_st* origin;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  bool open = true, invalid = false;
  std::vector<CUstream_st*> lanes;                         // streams that take part
  std::vector<std::pair<int, belfry::sim::Node>> nodes{};  // in the order of issue
  int tokens = 0;                                          // records so far
};

struct CUgraphExec_st {
  std::vector<std::pair<int, belfry::sim::Node>> nodes;
  std::vector<int> devices, queues;  // by lane; lane 0 is the stream of the launch
  int tokens;
  std::shared_ptr<belfry::sim::Mark> last{};  // launches of one graph do not overlap
};

namespace belfry::sim {

// Adds the node to the capture that the stream takes part in.
cudaError_t capture(State& state, CUstream_st* stream, Node node);
// The event's last record is in a capture: the stream takes part from now on.
cudaError_t join_capture(State& state, CUstream_st* stream, CUevent_st& event);
// Whether a call that may wait or allocate is permitted on this thread now.
cudaError_t check_capture(State& state, const char* call);

}  // namespace belfry::sim
