// SPDX-License-Identifier: MIT
// Captured work and its replay. Nothing runs while it is captured.
#include "belfry/tests/simcuda/graph.h"

#include <algorithm>

#include "belfry/tests/simcuda/api.h"

using namespace belfry::sim;

namespace belfry::sim {

cudaError_t capture(State& s, CUstream_st* stream, Node node) {
  CUgraph_st& g = *stream->capture;
  if (g.invalid) return cudaErrorStreamCaptureInvalidated;
  if (g.thread != std::this_thread::get_id() && g.mode != cudaStreamCaptureModeRelaxed)
    s.scheduler.report(node.what + " is captured by another thread than the one that began");
  g.nodes.emplace_back(stream->lane, std::move(node));
  return cudaSuccess;
}

cudaError_t join_capture(State& s, CUstream_st* stream, CUevent_st& event) {
  CUgraph_st* const g = event.graph;
  if (!g->open)
    return s.refuse(cudaErrorCapturedEvent,
                    "a stream waits for an event of a capture that has ended");
  if (stream->capture != nullptr && stream->capture != g) {
    g->invalid = stream->capture->invalid = true;
    return s.refuse(cudaErrorStreamCaptureMerge, "two captures are joined");
  }
  if (stream->capture == nullptr) {
    stream->capture = g;
    stream->lane = static_cast<int>(g->lanes.size());
    g->lanes.push_back(stream);
  }
  return cudaSuccess;
}

cudaError_t check_capture(State& s, const char* call) {
  for (const CUstream_st& st : s.streams) {
    CUgraph_st* const g = st.capture;
    if (g == nullptr || g->mode == cudaStreamCaptureModeRelaxed) continue;
    if (g->mode != cudaStreamCaptureModeGlobal && g->thread != std::this_thread::get_id()) continue;
    g->invalid = true;
    return s.refuse(cudaErrorStreamCaptureUnsupported,
                    std::string(call) + " is not permitted during a capture");
  }
  return cudaSuccess;
}

}  // namespace belfry::sim

namespace {

// The work of every lane must be known at the end of lane 0.
bool joined(const CUgraph_st& g) {
  std::vector<VectorClock> lane(g.lanes.size());
  std::vector<VectorClock> record(static_cast<std::size_t>(g.tokens));
  VectorClock all;
  for (const auto& [l, node] : g.nodes) {
    VectorClock& clock = lane[static_cast<std::size_t>(l)];
    if (node.token < 0) {
      tick(clock, l);
      tick(all, l);
    } else if (node.kind == Node::Kind::record) {
      record[static_cast<std::size_t>(node.token)] = clock;
    } else {
      join(clock, record[static_cast<std::size_t>(node.token)]);
    }
  }
  return covers(lane[0], all);
}

cudaError_t end(State& s, cudaStream_t stream, cudaGraph_t* out) {
  CUgraph_st* const g = stream->capture;
  *out = nullptr;
  if (g == nullptr) return s.refuse(cudaErrorIllegalState, "no capture to end");
  if (g->origin != stream)
    return s.refuse(cudaErrorStreamCaptureUnmatched, "a capture is ended on a stream that joined");
  if (g->mode != cudaStreamCaptureModeRelaxed && g->thread != std::this_thread::get_id())
    return s.refuse(cudaErrorStreamCaptureWrongThread, "a capture is ended by another thread");
  g->open = false;
  for (CUstream_st* lane : g->lanes) lane->capture = nullptr;
  if (g->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined(*g))
    return s.refuse(cudaErrorStreamCaptureUnjoined,
                    "a capture ends before the streams that took part have joined");
  *out = g;
  s.alive.insert(g);
  ++s.counts.live_graphs;
  return cudaSuccess;
}

void replay(State& s, CUgraphExec_st& x, CUstream_st* stream) {
  x.queues[0] = stream->queue;
  Node node;
  node.what = "start of a graph on " + stream->name;
  node.kind = Node::Kind::wait;
  if (x.last != nullptr) s.enqueue(stream->queue, stream->device, node, x.last);
  std::vector<std::shared_ptr<Mark>> marks(static_cast<std::size_t>(x.tokens));
  for (const auto& [l, n] : x.nodes) {
    const auto lane = static_cast<std::size_t>(l);
    std::shared_ptr<Mark> mark;
    if (n.token >= 0) {
      mark = marks[static_cast<std::size_t>(n.token)];
      if (mark == nullptr)
        mark = marks[static_cast<std::size_t>(n.token)] = std::make_shared<Mark>();
    }
    s.enqueue(x.queues[lane], x.devices[lane], n, std::move(mark));
  }
  node.what = "end of a graph on " + stream->name;
  node.kind = Node::Kind::record;
  x.last = std::make_shared<Mark>();
  s.enqueue(stream->queue, stream->device, node, x.last);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture", [&](State& s) -> cudaError_t {
    if (s.alive.count(stream) == 0)
      return s.refuse(cudaErrorStreamCaptureUnsupported, "a capture begins on no stream");
    if (stream->capture != nullptr)
      return s.refuse(cudaErrorIllegalState, "a capture begins on a stream that is captured");
    s.graphs.push_back(std::make_unique<CUgraph_st>());
    CUgraph_st* const g = s.graphs.back().get();
    g->origin = stream;
    g->thread = std::this_thread::get_id();
    g->mode = mode;
    g->lanes = {stream};
    stream->capture = g;
    stream->lane = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", [&](State& s) -> cudaError_t {
    if (s.alive.count(stream) == 0) return cudaErrorInvalidResourceHandle;
    return end(s, stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", [&](State& s) -> cudaError_t {
    if (s.alive.count(stream) == 0) return cudaErrorInvalidResourceHandle;
    const CUgraph_st* const g = stream->capture;
    *status = g == nullptr ? cudaStreamCaptureStatusNone
              : g->invalid ? cudaStreamCaptureStatusInvalidated
                           : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return api("cudaGraphInstantiate", [&](State& s) -> cudaError_t {
    if (s.alive.count(graph) == 0)
      return s.refuse(cudaErrorInvalidValue, "cudaGraphInstantiate of no graph");
    s.execs.push_back(std::make_unique<CUgraphExec_st>());
    CUgraphExec_st& x = *s.execs.back();
    x.nodes = graph->nodes;
    x.tokens = graph->tokens;
    for (std::size_t l = 0; l < graph->lanes.size(); ++l) {
      const int d = graph->lanes[l]->device;
      x.devices.push_back(d);
      const std::string text = "cuda:" + std::to_string(d) + " graph branch " + std::to_string(l);
      x.queues.push_back(l == 0 ? -1 : s.scheduler.open_queue(d, text));
      if (l != 0) s.branches[d].push_back(x.queues.back());
    }
    *out = &x;
    s.alive.insert(&x);
    ++s.counts.live_graphs;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api("cudaGraphLaunch", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, "cudaGraphLaunch");
    if (st == nullptr || s.alive.count(exec) == 0)
      return s.refuse(cudaErrorInvalidResourceHandle, "cudaGraphLaunch of no graph");
    if (st->device != exec->devices[0])
      return s.refuse(cudaErrorInvalidResourceHandle,
                      "cudaGraphLaunch on a stream of another device than the graph's");
    if (st->capture != nullptr) {
      st->capture->invalid = true;
      return s.refuse(cudaErrorStreamCaptureUnsupported, "a launch of a graph is captured");
    }
    ++s.counts.graph_launches;
    replay(s, *exec, st);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api("cudaGraphDestroy", [&](State& s) {
    if (s.alive.erase(graph) == 0)
      return s.refuse(cudaErrorInvalidValue, "cudaGraphDestroy of no graph");
    --s.counts.live_graphs;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api("cudaGraphExecDestroy", [&](State& s) {
    if (s.alive.erase(exec) == 0)
      return s.refuse(cudaErrorInvalidValue, "cudaGraphExecDestroy of no graph");
    --s.counts.live_graphs;
    return cudaSuccess;
  });
}

}  // extern "C"
