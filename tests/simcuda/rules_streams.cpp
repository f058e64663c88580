// SPDX-License-Identifier: MIT
// Misuse of streams, events and launches, injected failures, deadlocks.
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr std::size_t kN = 64;

struct Misuse {
  cudaStream_t stream, other;  // of devices 0 and 1
  cudaEvent_t event;           // of device 0
  float* memory;
};

// Runs `wrong` under several schedules: its result and its report.
template <class F>
void require_refused(cudaError_t error, const char* report, F wrong) {
  under_seeds(2, 10, [&](SimCuda& sim) {
    Misuse m = {};
    OK(cudaSetDevice(1));
    m.other = make_stream();
    OK(cudaSetDevice(0));
    m.stream = make_stream();
    m.event = make_event();
    m.memory = device_memory(kN);
    INFO(report);
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(wrong(m) == error);
    REQUIRE(reported(sim, report));
    REQUIRE(sim.reports().size() == 1);
    REQUIRE(cudaGetLastError() == error);
  });
}

struct Nothing {
  static constexpr const char* name = "nothing";
  void operator()(std::size_t) const {}
  void touches(Touches&, std::size_t) const {}
};

// A small program; the first error, which ends it.
cudaError_t program() {
  cudaStream_t s = nullptr, t = nullptr;
  cudaEvent_t e = nullptr;
  void *p = nullptr, *host = nullptr;
  const auto first = [](std::initializer_list<std::function<cudaError_t()>> calls) {
    for (const auto& call : calls)
      if (const cudaError_t error = call()) return error;
    return cudaSuccess;
  };
  return first({[&] { return cudaSetDevice(0); },
                [&] { return cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0); },
                [&] { return cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking); },
                [&] { return cudaEventCreateWithFlags(&e, cudaEventDisableTiming); },
                [&] { return cudaMalloc(&p, 400); }, [&] { return cudaMallocHost(&host, 400); },
                [&] { return cudaMemsetAsync(p, 0, 400, s); },
                [&] { return launch(Nothing{}, 5, s); }, [&] { return cudaEventRecord(e, s); },
                [&] { return cudaStreamWaitEvent(t, e, 0); },
                [&] { return cudaMemcpyAsync(host, p, 400, cudaMemcpyDeviceToHost, t); },
                [&] { return cudaEventSynchronize(e); }, [&] { return cudaStreamSynchronize(t); },
                [&] { return cudaDeviceSynchronize(); }, [&] { return cudaFree(p); },
                [&] { return cudaFreeHost(host); }, [&] { return cudaEventDestroy(e); },
                [&] { return cudaStreamDestroy(s); }, [&] { return cudaStreamDestroy(t); }});
}

}  // namespace

TEST_CASE("work on another device than the current one is refused", "[cuda-sim]") {
  require_refused(cudaErrorInvalidResourceHandle, "nothing is launched on a stream of another",
                  [](const Misuse& m) { return launch(Nothing{}, 1, m.other); });
  require_refused(cudaErrorInvalidResourceHandle, "cudaMemsetAsync on a stream of another",
                  [](const Misuse& m) { return cudaMemsetAsync(m.memory, 0, 4, m.other); });
  require_refused(cudaErrorInvalidResourceHandle, "event and stream are of different devices",
                  [](const Misuse& m) { return cudaEventRecord(m.event, m.other); });
}

TEST_CASE("what may cross devices does so without a report", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    cudaStream_t a = make_stream();
    cudaEvent_t e = make_event();
    float* p = device_memory(kN);
    OK(cudaMemsetAsync(p, 0, kN * sizeof(float), a));
    OK(cudaEventRecord(e, a));
    OK(cudaSetDevice(1));
    cudaStream_t b = make_stream();
    OK(cudaStreamWaitEvent(b, e, 0));
    float* q = device_memory(kN);
    OK(cudaMemcpyAsync(q, p, kN * sizeof(float), cudaMemcpyDeviceToDevice, b));
    OK(cudaEventSynchronize(e));
    OK(cudaStreamSynchronize(a));
    REQUIRE(from_device(q, kN, b) == std::vector<float>(kN, 0));
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("waiting for an event that was never recorded is reported", "[cuda-sim]") {
  require_refused(cudaSuccess, "the event was never recorded",
                  [](const Misuse& m) { return cudaStreamWaitEvent(m.stream, m.event, 0); });
  require_refused(cudaSuccess, "an event that was never recorded",
                  [](const Misuse& m) { return cudaEventSynchronize(m.event); });
}

TEST_CASE("handles that do not exist are refused", "[cuda-sim]") {
  require_refused(cudaErrorInvalidResourceHandle, "uses a stream that does not exist",
                  [](const Misuse& m) {
                    OK(cudaStreamDestroy(m.stream));
                    return cudaStreamSynchronize(m.stream);
                  });
  require_refused(cudaErrorInvalidResourceHandle, "cudaStreamDestroy of what is no stream",
                  [](const Misuse& m) {
                    OK(cudaStreamDestroy(m.stream));
                    return cudaStreamDestroy(m.stream);
                  });
  require_refused(cudaErrorInvalidResourceHandle, "uses an event that does not exist",
                  [](const Misuse& m) {
                    OK(cudaEventDestroy(m.event));
                    return cudaEventRecord(m.event, m.stream);
                  });
  require_refused(cudaErrorInvalidResourceHandle, "cudaEventDestroy of what is no event",
                  [](const Misuse& m) {
                    OK(cudaEventDestroy(m.event));
                    return cudaEventDestroy(m.event);
                  });
  require_refused(cudaErrorInvalidDevice, "", [](const Misuse& m) {
    launch(Nothing{}, 1, m.other);  // one report
    return cudaSetDevice(2);
  });
}

TEST_CASE("launches that cannot be are refused", "[cuda-sim]") {
  require_refused(cudaErrorInvalidConfiguration, "a block of impossible size",
                  [](const Misuse& m) { return launch(Nothing{}, 1, m.stream, dim3(1025)); });
  static const char kKernel = 0;
  const auto bound = [](const Misuse& m, dim3 grid, std::size_t shared) {
    static const Nothing f;
    belfry_sim_bind_kernel(&kKernel, {"nothing", &f, sizeof f, 1, false, host_elements<Nothing>,
                                      functor_touches<Nothing>});
    return cudaLaunchKernel(&kKernel, grid, dim3(32), nullptr, shared, m.stream);
  };
  require_refused(cudaErrorInvalidConfiguration, "a grid of impossible size",
                  [&](const Misuse& m) { return bound(m, dim3(0), 0); });
  require_refused(cudaErrorInvalidConfiguration, "more shared memory",
                  [&](const Misuse& m) { return bound(m, dim3(1), 50000); });
  SimCuda sim(1);
  const Misuse m{make_stream(), nullptr, nullptr, nullptr};
  OK(cudaFuncSetAttribute(&kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000));
  OK(bound(m, dim3(1), 50000));
  REQUIRE(cudaLaunchKernel(&kKernel, dim3(1), dim3(1), nullptr, 0, m.stream) ==
          cudaErrorInvalidDeviceFunction);  // a host body is for one launch
  REQUIRE(reported(sim, "without a host body"));
}

TEST_CASE("the default stream and streams that wait for it are reported", "[cuda-sim]") {
  SimCuda sim(1);
  OK(launch(Nothing{}, 1, nullptr));
  REQUIRE(reported(sim, "nothing uses the default stream"));
  cudaStream_t s = nullptr;
  OK(cudaStreamCreateWithFlags(&s, cudaStreamDefault));
  REQUIRE(reported(sim, "without cudaStreamNonBlocking"));
}

TEST_CASE("host functions of a stream run in order and may not call CUDA", "[cuda-sim]") {
  under_seeds(1, 20, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    std::vector<int> order;
    const auto add = [](void* p) {
      auto& list = *static_cast<std::vector<int>*>(p);
      list.push_back(static_cast<int>(list.size()));
    };
    OK(cudaLaunchHostFunc(s, add, &order));
    OK(cudaLaunchHostFunc(s, add, &order));
    OK(cudaStreamSynchronize(s));
    REQUIRE(order == std::vector<int>{0, 1});
    REQUIRE(sim.reports() == kNothing);
    cudaError_t inside = cudaSuccess;
    OK(cudaLaunchHostFunc(
        s,
        [](void* e) {
          int count = 0;
          *static_cast<cudaError_t*>(e) = cudaGetDeviceCount(&count);
        },
        &inside));
    OK(cudaStreamSynchronize(s));
    REQUIRE(inside == cudaErrorNotPermitted);
    REQUIRE(reported(sim, "cudaGetDeviceCount is called by a host function"));
  });
}

TEST_CASE("host functions race like everything else", "[cuda-sim]") {
  for (const bool waits : {true, false})
    under_seeds(1, 20, [waits](SimCuda& sim) {
      cudaStream_t a = make_stream(), b = make_stream();
      cudaEvent_t e = make_event();
      float* pinned = pinned_memory(kN);
      OK(cudaMemsetAsync(pinned, 0, kN * sizeof(float), a));
      OK(cudaEventRecord(e, a));
      if (waits) OK(cudaStreamWaitEvent(b, e, 0));
      belfry_sim_bind_host_function(Touches().reads(pinned, kN * sizeof(float)));
      OK(cudaLaunchHostFunc(
          b, [](void*) {}, nullptr));
      OK(cudaStreamSynchronize(b));
      OK(cudaStreamSynchronize(a));
      REQUIRE(sim.reports().empty() == waits);
    });
  under_seeds(1, 10, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    belfry_sim_bind_host_function(Touches().reads(device_memory(kN), 4));
    OK(cudaLaunchHostFunc(
        s, [](void*) {}, nullptr));
    REQUIRE(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
    REQUIRE(reported(sim, "is a host function and touches device memory"));
  });
}

TEST_CASE("asking again and again lets the work go on", "[cuda-sim]") {
  under_seeds(1, 30, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    cudaEvent_t e = make_event();
    float* pinned = pinned_memory(kN);
    OK(cudaMemsetAsync(pinned, 0, kN * sizeof(float), s));
    OK(cudaEventRecord(e, s));
    cudaError_t answer = cudaErrorNotReady;
    while (answer == cudaErrorNotReady) answer = cudaEventQuery(e);
    OK(answer);
    belfry_sim_host_access(Touches().reads(pinned, kN * sizeof(float)));  // now it is ours
    OK(launch(Nothing{}, 1, s));
    do answer = cudaStreamQuery(s);
    while (answer == cudaErrorNotReady);
    OK(answer);
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("threads that wait for each other's streams end in a report", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    bool told[2] = {false, false};
    const auto host = sim.host();
    struct Arg {
      bool* told;
      Host& host;
    } arg{told, *host};
    cudaError_t results[2] = {cudaSuccess, cudaSuccess};
    on_threads(sim, 2, [&](int rank) {
      // Each waits for the other before it tells.
      try {
        bool* other = &told[1 - rank];
        arg.host.wait([](void* p) { return *static_cast<bool*>(p); }, other);
        told[rank] = true;
      } catch (const std::exception&) {
      }
      cudaStream_t s = nullptr;
      results[rank] = cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0);
    });
    REQUIRE(reported(sim, "deadlock in "));
    for (const cudaError_t e : results) REQUIRE(e == cudaErrorLaunchTimeout);
  });
}

TEST_CASE("each call can fail, and the program ends with its error", "[cuda-sim]") {
  std::uint64_t calls = 0;
  {
    SimCuda sim(1);
    OK(program());
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.leaks() == "");
    calls = sim.scheduler().calls();
    REQUIRE(calls == 19);
  }
  for (std::uint64_t n = 1; n <= calls; ++n) {
    SimCuda sim(1, {.seed = n, .fail_call = n});
    sim.fail_with(cudaErrorECCUncorrectable);
    INFO("call " << n);
    REQUIRE(program() == cudaErrorECCUncorrectable);
    REQUIRE(cudaGetLastError() == cudaErrorECCUncorrectable);
  }
}

TEST_CASE("a device that breaks stays broken, and without a simulation all fails", "[cuda-sim]") {
  {
    SimCuda sim(1);
    sim.break_device(cudaErrorECCUncorrectable);
    REQUIRE(program() == cudaErrorECCUncorrectable);
    REQUIRE(std::string(cudaGetErrorName(cudaErrorECCUncorrectable)) ==
            "cudaErrorECCUncorrectable");
  }
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorInitializationError);
  SimCuda none(0);
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
}

TEST_CASE("devices have properties", "[cuda-sim]") {
  SimCuda sim(2);
  cudaDeviceProp p;
  OK(cudaGetDeviceProperties(&p, 1));
  REQUIRE(p.major == 9);
  REQUIRE(p.warpSize == 32);
  REQUIRE(p.pciBusID == 2);
  REQUIRE(cudaGetDeviceProperties(&p, 2) == cudaErrorInvalidDevice);
  int v = 0;
  OK(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
  REQUIRE(v == p.multiProcessorCount);
  OK(cudaRuntimeGetVersion(&v));
  REQUIRE(v == CUDART_VERSION);
  cudaEvent_t a = nullptr, b = nullptr;
  OK(cudaEventCreateWithFlags(&a, 0));
  OK(cudaEventCreateWithFlags(&b, 0));
  cudaStream_t s = make_stream();
  OK(cudaEventRecord(a, s));
  OK(launch(Nothing{}, 1, s));
  OK(cudaEventRecord(b, s));
  OK(cudaStreamSynchronize(s));
  float ms = 0;
  OK(cudaEventElapsedTime(&ms, a, b));
  REQUIRE(ms > 0);
}

}  // namespace belfry::sim
