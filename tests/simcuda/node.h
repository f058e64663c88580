// SPDX-License-Identifier: MIT
// Streams, events, and what is put on them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/tests/simcuda/memory.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry::sim {

// Something put on a stream, now or at each launch of the graph that captured it.
struct Node {
  enum class Kind : std::uint8_t { work, record, wait, post } kind = Kind::work;
  std::string what{};
  std::vector<Range> touches{};
  Toucher toucher = Toucher::kernel;
  std::function<void()> body{};
  CUevent_st* event = nullptr;     // record, wait: an event that lives outside of the capture
  int token = -1;                  // record, wait: a record inside of the capture
  std::uint64_t number = 0;        // wait: on its device
  std::function<int(int)> post{};  // puts a collective on the queue; an ncclResult_t
};

}  // namespace belfry::sim

struct CUstream_st {
  int device, queue;
  std::string name;
  CUgraph_st* capture = nullptr;
  int lane = 0;
};

struct CUevent_st {
  int device;
  bool timing = false;
  std::shared_ptr<belfry::sim::Mark> mark{};  // of the last record
  CUgraph_st* graph = nullptr;                // the last record is in this capture, under `token`
  int token = -1;
};

namespace belfry::sim {

// A collective, a send or a receive of NCCL.
struct NcclCall {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    all_to_all,
    send,
    receive
  } kind;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the other end of a send or receive
};

struct GroupCall {
  CUstream_st* stream;
  ncclComm* comm;
  NcclCall call;
};

}  // namespace belfry::sim
