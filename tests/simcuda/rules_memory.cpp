// SPDX-License-Identifier: MIT
// What may touch which memory, and what allocation may do.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr std::size_t kN = 64;

// Sets p[i] = v; declares `declared` elements.
struct Set {
  static constexpr const char* name = "set";
  float* p;
  float v;
  std::size_t declared;
  void operator()(std::size_t i) const { p[i] = v; }
  void touches(Touches& t, std::size_t) const { t.writes(p, declared * sizeof(float)); }
};

// The signal that ends a process of its own which runs `body`; 0: none.
template <class F>
int signal_of(F body) {
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    SimCuda sim(1);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("device memory is closed to the host", "[cuda-sim]") {
  const auto touch = [](float* p) { *static_cast<volatile float*>(p) = 1; };
  CHECK(signal_of([&] { touch(device_memory(kN)); }) == SIGSEGV);
  CHECK(signal_of([&] { touch(pinned_memory(kN)); }) == 0);
  CHECK(signal_of([&] {
          float* p = pinned_memory(kN);
          OK(cudaFreeHost(p));
          touch(p);
        }) == SIGSEGV);
  CHECK(signal_of([&] {  // also right after an operation has used it
          cudaStream_t s = make_stream();
          float* p = device_memory(kN);
          OK(launch(Set{p, 1, kN}, kN, s));
          OK(cudaStreamSynchronize(s));
          touch(p);
        }) == SIGSEGV);
}

TEST_CASE("a kernel that touches undeclared device memory dies", "[cuda-sim]") {
  const auto run = [](bool declares) {
    return signal_of([declares] {
      cudaStream_t s = make_stream();
      float *p = device_memory(4096), *other = device_memory(4096);
      OK(launch(Set{declares ? p : other, 1, kN}, kN, s));
      Set wrong{p, 1, kN};
      const KernelCall call{"set",
                            &wrong,
                            sizeof wrong,
                            kN,
                            false,
                            host_elements<Set>,
                            [](const void* f, std::size_t, Touches& t) {
                              t.writes(static_cast<const Set*>(f)->p + 2048, 4);
                            }};
      static const char kKernel = 0;
      if (!declares) {
        belfry_sim_bind_kernel(&kKernel, call);
        OK(cudaLaunchKernel(&kKernel, dim3(1), dim3(32), nullptr, 0, s));
      }
      OK(cudaStreamSynchronize(s));
    });
  };
  CHECK(run(true) == 0);
  CHECK(run(false) == SIGSEGV);
}

TEST_CASE("new device memory holds no numbers", "[cuda-sim]") {
  SimCuda sim(1);
  cudaStream_t s = make_stream();
  for (const float v : from_device(device_memory(kN), kN, s)) REQUIRE(std::isnan(v));
}

TEST_CASE("bad ranges of kernels are reported and break the device", "[cuda-sim]") {
  struct Case {
    const char* report;
    float* (*memory)();
    std::size_t declared;
  };
  static std::vector<float> heap(kN);
  const Case cases[] = {
      {"touches pageable host memory", [] { return heap.data(); }, kN},
      {"touches a null pointer", [] { return static_cast<float*>(nullptr); }, kN},
      {"touches memory past the end of its allocation", [] { return device_memory(kN); }, kN + 1},
      {"touches memory that was freed",
       [] {
         float* p = device_memory(kN);
         OK(cudaFree(p));
         return p;
       },
       kN},
      {"touches memory outside of every allocation", [] { return device_memory(kN) + kN + 1; }, 1},
      {"touches memory of another device without peer access",
       [] {
         OK(cudaSetDevice(1));
         float* p = device_memory(kN);
         OK(cudaSetDevice(0));
         return p;
       },
       kN},
  };
  for (const Case& c : cases)
    under_seeds(2, 10, [&](SimCuda& sim) {
      INFO(c.report);
      cudaStream_t s = make_stream();
      OK(launch(Set{c.memory(), 1, c.declared}, 1, s));
      REQUIRE(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
      REQUIRE(reported(sim, std::string("set on cuda:0 stream 0 ") + c.report));
      REQUIRE(sim.reports().size() == 1);
      int count = 0;
      REQUIRE(cudaGetDeviceCount(&count) == cudaErrorIllegalAddress);  // for good
      REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
    });
}

TEST_CASE("peer access opens another device's memory to kernels", "[cuda-sim]") {
  under_seeds(2, 10, [](SimCuda& sim) {
    int can = 0;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    REQUIRE(can == 1);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaSetDevice(1));
    float* there = device_memory(kN);
    OK(cudaSetDevice(0));
    cudaStream_t s = make_stream();
    float* pinned = pinned_memory(kN);
    OK(launch(Set{there, 5, kN}, kN, s));
    OK(launch(Set{pinned, 6, kN}, kN, s));
    REQUIRE(from_device(there, kN, s) == std::vector<float>(kN, 5));
    REQUIRE(std::vector<float>(pinned, pinned + kN) == std::vector<float>(kN, 6));
    REQUIRE(sim.reports() == kNothing);
    sim.without_peers();
    OK(cudaDeviceCanAccessPeer(&can, 1, 0));
    REQUIRE(can == 0);
  });
}

TEST_CASE("copies between devices need no peer access", "[cuda-sim]") {
  under_seeds(2, 10, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    float* here = to_device(std::vector<float>(kN, 3), s);
    OK(cudaSetDevice(1));
    float* there = device_memory(kN);
    OK(cudaSetDevice(0));
    OK(cudaMemcpyPeerAsync(there, 1, here, 0, kN * sizeof(float), s));
    REQUIRE(from_device(there, kN, s) == std::vector<float>(kN, 3));
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(cudaMemcpyPeerAsync(there, 0, here, 1, kN, s) == cudaErrorInvalidValue);
    REQUIRE(reported(sim, "not of the devices it names"));
    REQUIRE(cudaMemcpyAsync(there, here, kN, cudaMemcpyHostToDevice, s) == cudaErrorInvalidValue);
    REQUIRE(reported(sim, "the kind of copy does not fit"));
  });
}

TEST_CASE("copies of pageable memory wait and are counted", "[cuda-sim]") {
  under_seeds(1, 20, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    float* p = device_memory(kN);
    std::vector<float> host(kN, 1);
    OK(cudaMemcpyAsync(p, host.data(), kN * sizeof(float), cudaMemcpyHostToDevice, s));
    std::fill(host.begin(), host.end(), 2.0f);  // it has been taken
    REQUIRE(sim.counts().pageable_copies == 1);
    OK(cudaMemcpyAsync(host.data(), p, kN * sizeof(float), cudaMemcpyDeviceToHost, s));
    REQUIRE(host == std::vector<float>(kN, 1));  // it has arrived
    REQUIRE(sim.counts().pageable_copies == 2);
    OK(cudaMemcpy(host.data(), p, kN * sizeof(float), cudaMemcpyDeviceToHost));
    REQUIRE(sim.counts().blocking_copies == 1);
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("a blocking copy does not wait for streams of the program", "[cuda-sim]") {
  under_seeds(1, 20, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    float* p = device_memory(kN);
    std::vector<float> host(kN);
    OK(launch(Set{p, 1, kN}, kN, s));
    OK(cudaMemcpy(host.data(), p, kN * sizeof(float), cudaMemcpyDeviceToHost));
    sim.run_rest();
    REQUIRE(reported(sim, "race: "));
  });
}

TEST_CASE("allocation fails where the test says so", "[cuda-sim]") {
  SimCuda sim(2);
  sim.limit_memory(1000);
  sim.fail_malloc(3);
  void *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, 600));
  REQUIRE(cudaMalloc(&b, 600) == cudaErrorMemoryAllocation);
  REQUIRE(b == nullptr);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 10) == cudaErrorMemoryAllocation);  // the third
  OK(cudaMalloc(&b, 10));
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  REQUIRE(total == 1000);
  REQUIRE(free == 390);
  OK(cudaSetDevice(1));
  void* other = nullptr;
  OK(cudaMalloc(&other, 900));  // each device has its own
  REQUIRE(sim.leaks() == "3 blocks of device memory");
  for (void* p : {a, b, other}) OK(cudaFree(p));
  REQUIRE(sim.leaks() == "");
  REQUIRE(cudaFree(a) == cudaErrorInvalidValue);
  REQUIRE(reported(sim, "cudaFree of what it did not allocate"));
  void* pinned = nullptr;
  OK(cudaHostAlloc(&pinned, 5, 0));
  REQUIRE(cudaFree(pinned) == cudaErrorInvalidValue);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, pinned));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&attributes, &sim));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  OK(cudaFreeHost(pinned));
}

TEST_CASE("cudaFree waits for its own device only", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    cudaStream_t mine = make_stream();
    float* p = device_memory(kN);
    OK(launch(Set{p, 1, kN}, kN, mine));
    OK(cudaFree(p));
    REQUIRE(sim.reports() == kNothing);
    float* q = device_memory(kN);
    float* pinned = pinned_memory(kN);
    OK(cudaSetDevice(1));
    cudaStream_t theirs = make_stream();
    OK(cudaMemsetAsync(pinned, 0, kN * sizeof(float), theirs));
    OK(cudaMemcpyAsync(pinned, q, kN * sizeof(float), cudaMemcpyDeviceToHost, theirs));
    OK(cudaFree(q));  // the other device may still read it
    sim.run_rest();
    REQUIRE((reported(sim, "race: ") || reported(sim, "touches memory that was freed")));
  });
}

TEST_CASE("the host may not touch pinned memory that a copy uses", "[cuda-sim]") {
  for (const bool waits : {true, false})
    under_seeds(1, 20, [waits](SimCuda& sim) {
      cudaStream_t s = make_stream();
      cudaEvent_t e = make_event();
      float *p = device_memory(kN), *pinned = pinned_memory(kN);
      OK(cudaMemcpyAsync(p, pinned, kN * sizeof(float), cudaMemcpyHostToDevice, s));
      OK(cudaEventRecord(e, s));
      if (waits) OK(cudaEventSynchronize(e));
      belfry_sim_host_access(Touches().writes(pinned, kN * sizeof(float)));
      sim.run_rest();
      REQUIRE(sim.reports().empty() == waits);
    });
}

}  // namespace belfry::sim
