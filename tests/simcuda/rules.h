// SPDX-License-Identifier: MIT
// What the tests of the simulator share: programs are written on CUDA's own functions.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "belfry/device/kernel.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/simcuda/rules_kernel.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry::sim {

inline const std::vector<std::string> kNothing;

inline bool reported(SimCuda& sim, const std::string& part) {
  return std::any_of(sim.reports().begin(), sim.reports().end(),
                     [&](const std::string& r) { return r.find(part) != std::string::npos; });
}

// Runs body(sim) under several schedules.
template <class F>
void under_seeds(int devices, std::uint64_t usual, F body) {
  for (std::uint64_t seed = 1; seed <= seeds(usual); ++seed) {
    INFO("seed " << seed);
    SimCuda sim(devices, {.seed = seed});
    body(sim);
  }
}

#define OK(call) REQUIRE((call) == cudaSuccess)
#define NCCL_OK(call) REQUIRE((call) == ncclSuccess)

// Launches as the product does, from a translation unit without nvcc.
template <class F>
cudaError_t launch(const F& f, std::size_t n, cudaStream_t stream, dim3 block = dim3(256)) {
  static const char kKernel = 0;
  const KernelCall call{F::name, &f, sizeof f, n, false, host_elements<F>, functor_touches<F>};
  belfry_sim_bind_kernel(&kKernel, call);
  return cudaLaunchKernel(&kKernel, dim3(8), block, nullptr, 0, stream);
}

inline cudaStream_t make_stream() {
  cudaStream_t s = nullptr;
  OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0));
  return s;
}
inline cudaEvent_t make_event() {
  cudaEvent_t e = nullptr;
  OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  return e;
}
template <class T = float>
T* device_memory(std::size_t n) {
  void* p = nullptr;
  OK(cudaMalloc(&p, n * sizeof(T)));
  return static_cast<T*>(p);
}
template <class T = float>
T* pinned_memory(std::size_t n) {
  void* p = nullptr;
  OK(cudaMallocHost(&p, n * sizeof(T)));
  return static_cast<T*>(p);
}
template <class T>
T* to_device(const std::vector<T>& v, cudaStream_t s) {
  T* p = device_memory<T>(v.size());
  OK(cudaMemcpyAsync(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice, s));
  return p;
}
template <class T>
std::vector<T> from_device(const T* p, std::size_t n, cudaStream_t s) {
  std::vector<T> v(n);
  OK(cudaMemcpyAsync(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, s));
  return v;
}

// Runs body(rank) on n host threads of the simulation.
template <class F>
void on_threads(SimCuda& sim, int n, F body) {
  const auto host = sim.host();
  host->run(
      n, [](void* f, int rank) { (*static_cast<F*>(f))(rank); }, &body);
}

}  // namespace belfry::sim
