// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/tests/simcuda/api.h"
#include "belfry/tests/simcuda/graph.h"

using namespace belfry::sim;

namespace {

CUevent_st* usable(State& s, cudaEvent_t event, const char* call) {
  if (s.alive.count(event) != 0) return event;
  s.scheduler.report(std::string(call) + " uses an event that does not exist");
  return nullptr;
}

cudaError_t make_event(State& s, cudaEvent_t* out, unsigned flags) {
  const int d = s.local().device;
  *out = &s.events.emplace_back(CUevent_st{d, (flags & cudaEventDisableTiming) == 0});
  s.alive.insert(*out);
  ++s.counts.live_events;
  return cudaSuccess;
}

cudaError_t make_stream(State& s, cudaStream_t* out, unsigned flags) {
  const int d = s.local().device;
  if ((flags & cudaStreamNonBlocking) == 0)
    s.scheduler.report("a stream without cudaStreamNonBlocking waits for the default stream");
  const std::string text =
      "cuda:" + std::to_string(d) + " stream " + std::to_string(s.streams.size());
  *out = &s.streams.emplace_back(CUstream_st{d, s.scheduler.open_queue(d, text), text});
  s.alive.insert(*out);
  ++s.counts.live_streams;
  return cudaSuccess;
}

cudaError_t record(const char* call, cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return api(call, [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, call);
    CUevent_st* const e = usable(s, event, call);
    if (st == nullptr || e == nullptr) return cudaErrorInvalidResourceHandle;
    if (e->device != st->device)
      return s.refuse(cudaErrorInvalidResourceHandle,
                      std::string(call) + ": event and stream are of different devices");
    Node node;
    node.kind = Node::Kind::record;
    node.what = "record on " + st->name;
    if (st->capture == nullptr || flags == cudaEventRecordExternal) {
      node.event = e;
    } else {
      node.token = st->capture->tokens++;
      e->mark = nullptr;
      e->graph = st->capture;
      e->token = node.token;
    }
    return s.put(st, std::move(node));
  });
}

// Whether the event's last record is in a capture, which no call but a stream's wait may see.
bool captured(const CUevent_st& e) { return e.graph != nullptr; }

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return api("cudaStreamCreateWithPriority",
             [&](State& s) { return make_stream(s, stream, flags); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api("cudaStreamCreateWithFlags", [&](State& s) { return make_stream(s, stream, flags); });
}

// What is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api("cudaStreamDestroy", [&](State& s) {
    if (s.alive.erase(stream) == 0)
      return s.refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy of what is no stream");
    if (stream->capture != nullptr) {
      s.scheduler.report("a stream is destroyed while it is captured");
      stream->capture->invalid = true;
    }
    --s.counts.live_streams;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api(
      "cudaStreamSynchronize",
      [&](State& s) -> cudaError_t {
        CUstream_st* const st = s.usable(stream, "cudaStreamSynchronize");
        if (st == nullptr) return cudaErrorInvalidResourceHandle;
        if (const cudaError_t e = s.may_wait("cudaStreamSynchronize", st)) return e;
        s.scheduler.synchronize(st->queue, !s.scheduler.drop_sync(st->device));
        return s.broken;
      },
      Waits::yes);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api("cudaStreamQuery", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, "cudaStreamQuery");
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t e = s.may_wait("cudaStreamQuery", st)) return e;
    if (!s.scheduler.idle(st->queue)) s.poll();
    if (s.broken != cudaSuccess) return s.broken;
    if (!s.scheduler.idle(st->queue)) return cudaErrorNotReady;
    s.scheduler.synchronize(st->queue, true, false);
    return s.broken;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return api("cudaStreamGetDevice", [&](State& s) {
    CUstream_st* const st = s.usable(stream, "cudaStreamGetDevice");
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    *device = st->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api("cudaStreamWaitEvent", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, "cudaStreamWaitEvent");
    CUevent_st* const e = usable(s, event, "cudaStreamWaitEvent");
    if (st == nullptr || e == nullptr) return cudaErrorInvalidResourceHandle;
    if (s.scheduler.drop_wait(st->device)) return cudaSuccess;
    Node node;
    node.kind = Node::Kind::wait;
    node.what = "wait on " + st->name;
    node.number = s.scheduler.wait_number(st->device);
    if (st->capture != nullptr && flags == cudaEventWaitExternal) {
      node.event = e;
      return s.put(st, std::move(node));
    }
    if (captured(*e)) {
      if (const cudaError_t error = join_capture(s, st, *e)) return error;
      node.token = e->token;
      return s.put(st, std::move(node));
    }
    if (st->capture != nullptr) {
      st->capture->invalid = true;
      return s.refuse(cudaErrorStreamCaptureIsolation,
                      "a captured stream waits for an event from outside of its capture");
    }
    node.event = e;
    return s.put(st, std::move(node));
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  return api("cudaLaunchHostFunc", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, "cudaLaunchHostFunc");
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    Node node;
    node.what = "host function on " + st->name;
    node.toucher = Toucher::host_func;
    node.touches = std::exchange(s.local().host_touches, {});
    node.body = [fn, data] { fn(data); };
    return s.put(st, std::move(node));
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api("cudaEventCreateWithFlags", [&](State& s) { return make_event(s, event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api("cudaEventDestroy", [&](State& s) {
    if (s.alive.erase(event) == 0)
      return s.refuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy of what is no event");
    --s.counts.live_events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record("cudaEventRecord", event, stream, 0);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return record("cudaEventRecordWithFlags", event, stream, flags);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api(
      "cudaEventSynchronize",
      [&](State& s) -> cudaError_t {
        CUevent_st* const e = usable(s, event, "cudaEventSynchronize");
        if (e == nullptr) return cudaErrorInvalidResourceHandle;
        if (captured(*e))
          return s.refuse(cudaErrorCapturedEvent, "the host waits for a captured event");
        if (const cudaError_t error = check_capture(s, "cudaEventSynchronize")) return error;
        if (e->mark == nullptr)
          return s.refuse(cudaSuccess, "the host waits for an event that was never recorded");
        const std::shared_ptr<Mark> mark = e->mark;
        s.scheduler.wait_host(*mark);
        return s.broken;
      },
      Waits::yes);
}

// By the scheduler's model of time.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return api("cudaEventElapsedTime", [&](State& s) -> cudaError_t {
    for (cudaEvent_t e : {from, to}) {
      if (usable(s, e, "cudaEventElapsedTime") == nullptr || !e->timing || e->mark == nullptr)
        return cudaErrorInvalidResourceHandle;
      if (!e->mark->done) return cudaErrorNotReady;
    }
    *milliseconds = static_cast<float>((to->mark->time - from->mark->time) * 1e3);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api("cudaEventQuery", [&](State& s) -> cudaError_t {
    CUevent_st* const e = usable(s, event, "cudaEventQuery");
    if (e == nullptr) return cudaErrorInvalidResourceHandle;
    if (captured(*e)) return s.refuse(cudaErrorCapturedEvent, "a captured event is queried");
    if (const cudaError_t error = check_capture(s, "cudaEventQuery")) return error;
    if (e->mark == nullptr) return cudaSuccess;  // nothing to wait for, as in CUDA
    const std::shared_ptr<Mark> mark = e->mark;
    if (!mark->done) s.poll();
    if (s.broken != cudaSuccess) return s.broken;
    if (!mark->done) return cudaErrorNotReady;
    s.scheduler.wait_host(*mark);
    return cudaSuccess;
  });
}

}  // extern "C"

void belfry_sim_bind_host_function(const belfry::Touches& touches) {
  if (SimCuda::active() != nullptr)
    SimCuda::active()->state().local().host_touches = ranges_of(touches);
}

void belfry_sim_host_access(const belfry::Touches& touches) {
  SimCuda* const sim = SimCuda::active();
  if (sim == nullptr) return;
  Scheduler& scheduler = sim->scheduler();
  const std::string* const what = scheduler.name("host");
  for (const Range& r : ranges_of(touches)) scheduler.host_access(r, what);
}
