// SPDX-License-Identifier: MIT
// Capture and replay.
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr std::size_t kN = 64;
constexpr auto kMode = cudaStreamCaptureModeThreadLocal;

struct Add {
  static constexpr const char* name = "add";
  float* p;
  float v;
  void operator()(std::size_t i) const { p[i] += v; }
  void touches(Touches& t, std::size_t n) const {
    t.reads(p, n * sizeof(float)).writes(p, n * sizeof(float));
  }
};

struct Streams {
  cudaStream_t main = make_stream(), side = make_stream();
  cudaEvent_t fork = make_event(), join = make_event();
  float *x = device_memory(kN), *y = device_memory(kN);
};

// main adds 1 to x; side adds x to y; main adds y to x. `without` = 1: before it waits for side.
void body(const Streams& s, int without = 0) {
  OK(launch(Add{s.x, 1}, kN, s.main));
  OK(cudaEventRecord(s.fork, s.main));
  OK(cudaStreamWaitEvent(s.side, s.fork, 0));
  OK(launch(Axpy{1, s.x, s.y}, kN, s.side));
  OK(cudaEventRecord(s.join, s.side));
  if (without != 1) OK(cudaStreamWaitEvent(s.main, s.join, 0));
  OK(launch(Axpy{1, s.y, s.x}, kN, s.main));
  if (without == 1) OK(cudaStreamWaitEvent(s.main, s.join, 0));
}

cudaGraphExec_t captured(const Streams& s, int without = 0) {
  OK(cudaStreamBeginCapture(s.main, kMode));
  body(s, without);
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(s.main, &graph));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  return exec;
}

void clear(const Streams& s) {
  OK(cudaMemsetAsync(s.x, 0, kN * sizeof(float), s.main));
  OK(cudaMemsetAsync(s.y, 0, kN * sizeof(float), s.main));
}

// A capture that goes wrong: `wrong` returns the error of a call, `ends` is that of the capture.
template <class F>
void require_broken(cudaError_t error, const char* report, cudaError_t ends, F wrong) {
  under_seeds(1, 10, [&](SimCuda& sim) {
    const Streams s;
    OK(cudaStreamBeginCapture(s.main, kMode));
    OK(launch(Add{s.x, 1}, kN, s.main));
    INFO(report);
    REQUIRE(wrong(s) == error);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.main, &graph) == ends);
    REQUIRE(reported(sim, report));
    REQUIRE((graph != nullptr) == (ends == cudaSuccess));
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(s.main, &status));
    REQUIRE(status == cudaStreamCaptureStatusNone);
  });
}

}  // namespace

TEST_CASE("a graph replays what eager streams do", "[cuda-sim]") {
  under_seeds(1, 50, [](SimCuda& sim) {
    const Streams s;
    clear(s);
    for (int i = 0; i < 3; ++i) body(s);
    const std::vector<float> want = from_device(s.x, kN, s.main);
    clear(s);
    const std::uint64_t before = sim.counts().launches;
    cudaGraphExec_t exec = captured(s);
    REQUIRE(sim.counts().launches == before + 3);
    REQUIRE(from_device(s.x, kN, s.main) == std::vector<float>(kN, 0));  // nothing has run
    for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, s.main));
    REQUIRE(from_device(s.x, kN, s.main) == want);
    REQUIRE(want == std::vector<float>(kN, 20));
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.counts().graph_launches == 3);
    REQUIRE(sim.leaks().find("1 graphs") != std::string::npos);
    OK(cudaGraphExecDestroy(exec));
    REQUIRE(sim.leaks().find("graphs") == std::string::npos);
    REQUIRE(cudaGraphLaunch(exec, s.main) == cudaErrorInvalidResourceHandle);
    REQUIRE(reported(sim, "cudaGraphLaunch of no graph"));
  });
}

TEST_CASE("a missing edge inside of a graph is reported at its launch", "[cuda-sim]") {
  under_seeds(1, 20, [](SimCuda& sim) {
    const Streams s;
    clear(s);
    cudaGraphExec_t exec = captured(s, 1);
    REQUIRE(sim.reports() == kNothing);
    OK(cudaGraphLaunch(exec, s.main));
    OK(cudaStreamSynchronize(s.main));
    REQUIRE(reported(sim, "race: "));
  });
}

TEST_CASE("launches of one graph on two streams do not overlap", "[cuda-sim]") {
  under_seeds(1, 20, [](SimCuda& sim) {
    const Streams s;
    clear(s);
    cudaGraphExec_t exec = captured(s);
    OK(cudaGraphLaunch(exec, s.main));
    OK(cudaGraphLaunch(exec, s.side));
    OK(cudaStreamSynchronize(s.side));
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("captures that go wrong say so", "[cuda-sim]") {
  const auto invalid = cudaErrorStreamCaptureInvalidated;
  require_broken(cudaErrorStreamCaptureUnsupported,
                 "cudaStreamSynchronize is not permitted during a capture", invalid,
                 [](const Streams& s) { return cudaStreamSynchronize(s.main); });
  require_broken(cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize is not permitted",
                 invalid, [](const Streams&) { return cudaDeviceSynchronize(); });
  require_broken(cudaErrorStreamCaptureUnsupported, "cudaMalloc is not permitted", invalid,
                 [](const Streams&) {
                   void* p = nullptr;
                   return cudaMalloc(&p, 4);
                 });
  require_broken(cudaErrorStreamCaptureUnsupported, "a copy of pageable memory is captured",
                 invalid, [](const Streams& s) {
                   float v = 0;
                   return cudaMemcpyAsync(s.x, &v, 4, cudaMemcpyHostToDevice, s.main);
                 });
  require_broken(cudaErrorStreamCaptureIsolation, "an event from outside of its capture", invalid,
                 [](const Streams& s) {
                   OK(cudaEventRecord(s.fork, s.side));
                   return cudaStreamWaitEvent(s.main, s.fork, 0);
                 });
  require_broken(cudaErrorCapturedEvent, "the host waits for a captured event", cudaSuccess,
                 [](const Streams& s) {
                   OK(cudaEventRecord(s.fork, s.main));
                   return cudaEventSynchronize(s.fork);
                 });
  require_broken(cudaSuccess, "before the streams that took part have joined",
                 cudaErrorStreamCaptureUnjoined, [](const Streams& s) {
                   OK(cudaEventRecord(s.fork, s.main));
                   OK(cudaStreamWaitEvent(s.side, s.fork, 0));
                   return launch(Add{s.y, 1}, kN, s.side);
                 });
  require_broken(cudaErrorStreamCaptureUnmatched, "ended on a stream that joined",
                 cudaErrorStreamCaptureUnjoined, [](const Streams& s) {
                   OK(cudaEventRecord(s.fork, s.main));
                   OK(cudaStreamWaitEvent(s.side, s.fork, 0));
                   OK(launch(Add{s.y, 1}, kN, s.side));
                   cudaGraph_t graph = nullptr;
                   return cudaStreamEndCapture(s.side, &graph);
                 });
  require_broken(cudaErrorIllegalState, "a capture begins on a stream that is captured",
                 cudaSuccess,
                 [](const Streams& s) { return cudaStreamBeginCapture(s.main, kMode); });
}

TEST_CASE("an event of a capture that has ended cannot be waited for", "[cuda-sim]") {
  SimCuda sim(1);
  const Streams s;
  captured(s);
  REQUIRE(cudaStreamWaitEvent(s.side, s.fork, 0) == cudaErrorCapturedEvent);
  REQUIRE(reported(sim, "an event of a capture that has ended"));
  OK(cudaEventRecord(s.fork, s.main));  // recorded anew it is a plain event
  OK(cudaStreamWaitEvent(s.side, s.fork, 0));
}

TEST_CASE("another thread's capture stops nobody unless it is global", "[cuda-sim]") {
  for (const cudaStreamCaptureMode mode : {kMode, cudaStreamCaptureModeGlobal})
    under_seeds(1, 20, [mode](SimCuda& sim) {
      const Streams s;
      cudaStream_t free_stream = make_stream();
      OK(cudaStreamBeginCapture(s.main, mode));
      cudaError_t there[2] = {cudaSuccess, cudaSuccess};
      const auto other = [&](int rank) {
        if (rank == 1) there[1] = cudaStreamSynchronize(free_stream);
      };
      on_threads(sim, 2, other);
      REQUIRE((there[1] == cudaSuccess) == (mode == kMode));
      REQUIRE(sim.reports().empty() == (mode == kMode));
    });
}

TEST_CASE("external events are seen outside of their graph", "[cuda-sim]") {
  for (const bool waits : {true, false})
    under_seeds(1, 20, [waits](SimCuda& sim) {
      const Streams s;
      float* z = device_memory(kN);
      clear(s);
      OK(cudaMemsetAsync(z, 0, kN * sizeof(float), s.main));
      cudaGraphExec_t first = nullptr, second = nullptr;
      cudaGraph_t graph = nullptr;
      OK(cudaStreamBeginCapture(s.main, kMode));
      OK(launch(Add{s.x, 1}, kN, s.main));
      OK(cudaEventRecordWithFlags(s.fork, s.main, cudaEventRecordExternal));
      OK(launch(Add{z, 1}, kN, s.main));  // beside what side does
      OK(cudaStreamEndCapture(s.main, &graph));
      OK(cudaGraphInstantiate(&first, graph, 0));
      OK(cudaStreamBeginCapture(s.main, kMode));
      OK(cudaStreamWaitEvent(s.main, s.join, cudaEventWaitExternal));
      OK(launch(Axpy{1, s.y, s.x}, kN, s.main));
      OK(cudaStreamEndCapture(s.main, &graph));
      OK(cudaGraphInstantiate(&second, graph, 0));
      for (int i = 0; i < 3; ++i) {
        OK(cudaGraphLaunch(first, s.main));
        if (waits) OK(cudaStreamWaitEvent(s.side, s.fork, 0));
        OK(launch(Axpy{1, s.x, s.y}, kN, s.side));
        OK(cudaEventRecord(s.join, s.side));
        OK(cudaGraphLaunch(second, s.main));
      }
      const std::vector<float> x = from_device(s.x, kN, s.main);
      if (waits) REQUIRE(x == std::vector<float>(kN, 20));
      REQUIRE(sim.reports().empty() == waits);
    });
}

TEST_CASE("a graph that waits for what nobody recorded is reported", "[cuda-sim]") {
  SimCuda sim(1);
  const Streams s;
  OK(cudaStreamBeginCapture(s.main, kMode));
  OK(cudaStreamWaitEvent(s.main, s.join, cudaEventWaitExternal));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(s.main, &graph));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  REQUIRE(sim.reports() == kNothing);
  OK(cudaGraphLaunch(exec, s.main));
  REQUIRE(reported(sim, "was never recorded"));
}

}  // namespace belfry::sim
