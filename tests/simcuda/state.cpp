// SPDX-License-Identifier: MIT
#include "belfry/tests/simcuda/state.h"

#include <algorithm>

#include "belfry/tests/simcuda/api.h"
#include "belfry/tests/simcuda/graph.h"
#include "belfry/tests/simcuda/nccl_state.h"

namespace belfry::sim {
namespace {

SimCuda* active_sim = nullptr;
std::uint64_t generation = 0;

}  // namespace

State::State(int count, const SchedulerOptions& options)
    : scheduler(options), memory(count), devices(count), nccl(std::make_unique<NcclState>()) {
  ++generation;
}
State::~State() = default;

Local& State::local() {
  thread_local Local mine;
  if (mine.generation != generation) {
    mine = Local();
    mine.generation = generation;
  }
  return mine;
}

CUstream_st* State::usable(cudaStream_t stream, const char* call) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    scheduler.report(std::string(call) + " uses the default stream");
    return null_stream(local().device);
  }
  if (alive.count(stream) != 0) return stream;
  scheduler.report(std::string(call) + " uses a stream that does not exist");
  return nullptr;
}

CUstream_st* State::null_stream(int device) {
  CUstream_st*& s = null_streams[device];
  if (s == nullptr) {
    const std::string text = "cuda:" + std::to_string(device) + " default";
    s = &streams.emplace_back(CUstream_st{device, scheduler.open_queue(device, text), text});
  }
  return s;
}

cudaError_t State::put(CUstream_st* stream, Node node) {
  for (const GroupCall& c : local().pending)
    if (c.stream == stream && node.kind != Node::Kind::post)
      scheduler.report(node.what + " is put before the collectives of an open NCCL group");
  if (stream->capture != nullptr) return capture(*this, stream, std::move(node));
  enqueue(stream->queue, stream->device, node, nullptr);
  return cudaSuccess;
}

// `mark` is of a record inside of a graph; else the event has it.
void State::enqueue(int queue, int device, const Node& node, std::shared_ptr<Mark> mark) {
  if (node.kind == Node::Kind::post) {
    node.post(queue);
    return;
  }
  if (node.event != nullptr && alive.count(node.event) == 0)
    scheduler.report(node.what + " of a graph uses an event that was destroyed");
  Operation op;
  op.what = name(node.what);
  if (node.kind == Node::Kind::work) {
    op.touches = node.touches;
    op.run = [this, device, what = op.what, touches = node.touches, toucher = node.toucher,
              body = node.body] {
      for (const Range& r : touches) {
        const std::string fault = memory.fault(r, device, toucher);
        if (fault.empty()) continue;
        broken = refuse(cudaErrorIllegalAddress, *what + " " + fault);
        return;
      }
      const Opened open(memory, what,
                        toucher == Toucher::host_func ? std::vector<Range>{} : touches);
      if (body) body();
    };
  } else if (node.kind == Node::Kind::record) {
    if (mark == nullptr) {
      mark = node.event->mark = std::make_shared<Mark>();
      node.event->graph = nullptr;
    }
    op.kind = Operation::Kind::record;
    op.mark = std::move(mark);
  } else {
    if (mark == nullptr) mark = node.event->mark;
    if (mark == nullptr) {
      scheduler.report(node.what + ": the event was never recorded, so nothing waits");
      return;
    }
    op.kind = Operation::Kind::wait;
    op.mark = std::move(mark);
    op.number = node.number;
  }
  scheduler.submit(queue, std::move(op));
}

cudaError_t State::may_wait(const char* call, CUstream_st* stream) {
  for (const GroupCall& c : local().pending)
    if (stream == nullptr || c.stream == stream)
      scheduler.report(std::string(call) + " waits inside of an NCCL group for what is not queued");
  return check_capture(*this, call);
}

// The device waits for its collective, which waits for other members: what they do then may wait
// for this call.
void State::may_allocate(const char* call, int device) {
  for (const auto& [queue, mark] : collectives[device])
    if (!mark->done || !covers(scheduler.threads().me().clock, mark->clock))
      scheduler.report(std::string(call) + " while a collective may be queued on cuda:" +
                       std::to_string(device) + ", which may hang");
  auto& me = scheduler.threads().me();
  tick(me.clock, me.agent);
  allocated[device] = me.clock;
}

void State::wait_device(int device, bool counted) {
  const bool ordered = !counted || !scheduler.drop_sync(device);
  for (const CUstream_st& s : streams)
    if (s.device == device) scheduler.synchronize(s.queue, ordered, false);
  for (const int queue : branches[device]) scheduler.synchronize(queue, ordered, false);
}

void State::poll() {
  scheduler.progress();
  Local& mine = local();
  const std::uint64_t now = scheduler.threads().progress();
  mine.futile = now == mine.seen ? mine.futile + 1 : 0;
  mine.seen = now;
  // Asking does not help any more.
  if (mine.futile > 1000) scheduler.block_until([] { return false; }, "a loop of queries");
}

SimCuda::SimCuda(int devices, const SchedulerOptions& options) {
  if (active_sim != nullptr) throw DeviceError("a simulation is active already");
  state_ = std::make_unique<State>(devices, options);
  watch_heap(&state_->scheduler);
  active_sim = this;
}

SimCuda::~SimCuda() {
  watch_heap(nullptr);
  active_sim = nullptr;
}

SimCuda* SimCuda::active() { return active_sim; }
Scheduler& SimCuda::scheduler() { return state_->scheduler; }
void SimCuda::limit_memory(std::size_t bytes) { state_->memory.limit(bytes); }
void SimCuda::fail_malloc(std::uint64_t nth) { state_->fail_malloc = nth; }
void SimCuda::fail_with(cudaError_t error) { state_->injected = error; }
void SimCuda::break_device(cudaError_t error) { state_->broken = error; }
void SimCuda::without_peers() { state_->peers = false; }
void SimCuda::break_collective(std::uint64_t nth, ncclResult_t error) {
  state_->nccl->break_at = nth;
  state_->nccl->break_with = error;
}
void SimCuda::run_rest() {
  while (state_->scheduler.progress()) {
  }
}
const CudaCounts& SimCuda::counts() const { return state_->counts; }

std::string SimCuda::leaks() const {
  const CudaCounts& c = counts();
  std::string out;
  const auto add = [&out](std::int64_t n, const char* what) {
    if (n != 0) out += (out.empty() ? "" : ", ") + std::to_string(n) + " " + what;
  };
  add(c.live_blocks, "blocks of device memory");
  add(c.live_pinned, "blocks of pinned memory");
  add(c.live_streams, "streams");
  add(c.live_events, "events");
  add(c.live_graphs, "graphs");
  add(c.live_communicators, "communicators");
  add(c.live_blas, "objects of cuBLASLt");
  return out;
}

cudaError_t submit(cudaStream_t stream, const std::string& what, const Touches& touches,
                   std::function<void()> body) {
  return api("submit", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, what.c_str());
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    if (st->device != s.local().device)
      return s.refuse(cudaErrorInvalidResourceHandle,
                      what + " is put on a stream of another device than the current one");
    Node node;
    node.what = what + " on " + st->name;
    node.touches = ranges_of(touches);
    node.body = std::move(body);
    return s.put(st, std::move(node));
  });
}

}  // namespace belfry::sim
