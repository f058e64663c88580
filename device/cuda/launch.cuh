// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>

#include "belfry/device/cuda/kernel_table.h"
#include "belfry/device/cuda/sim_hooks.h"
#include "belfry/device/kernel.h"
#include "belfry/device/run_packets.h"

// How functors become CUDA kernels. Included by the generated kernel files and by users' own ones.
namespace belfry {

inline constexpr unsigned kElementThreads = 256;
inline constexpr unsigned kElementUnroll = 4;  // loads in flight a thread
inline constexpr unsigned kMostBlocks = 1u << 16;

// With known arrays packets of four, else four elements a thread in flight.
template <class F>
__global__ void __launch_bounds__(kElementThreads) element_kernel(F functor, std::size_t n) {
  const F f = functor;
  if constexpr (HasArrays<F>) {
    const std::size_t threads = kElementThreads;
    run_share(f, 0, n, blockIdx.x * threads + threadIdx.x, gridDim.x * threads);
  } else {
    const std::size_t tile = kElementThreads * kElementUnroll;
    for (std::size_t base = blockIdx.x * tile; base < n; base += gridDim.x * tile) {
#pragma unroll
      for (unsigned k = 0; k < kElementUnroll; ++k) {
        const std::size_t i = base + k * kElementThreads + threadIdx.x;
        if (i < n) f(i);
      }
    }
  }
}

// The workers of one row: a block of kTeamLanes threads that adds in the order of HostTeam.
class BlockTeam {
 public:
  template <class Op, class R, class F>
  __device__ R fold(std::size_t n, F f) const {
    __shared__ alignas(R) unsigned char memory[kTeamLanes * sizeof(R)];
    R* p = reinterpret_cast<R*>(memory);
    const unsigned t = threadIdx.x;
    int lanes = 1;
    while (lanes < kTeamLanes && static_cast<std::size_t>(lanes) < n) lanes *= 2;
    R mine = t < n ? f(static_cast<std::size_t>(t)) : Op::template id<R>();
    for (std::size_t i = t + static_cast<std::size_t>(lanes); t < lanes && i < n; i += kTeamLanes)
      mine = Op::template op<R>(mine, f(i));
    p[t] = mine;
    __syncthreads();
    for (int s = lanes / 2; s > 0; s /= 2) {
      if (t < s) p[t] = Op::template op<R>(p[t], p[t + s]);
      __syncthreads();
    }
    const R result = p[0];
    __syncthreads();  // before the next fold writes
    return result;
  }
  template <class R, class F>
  __device__ R sum(std::size_t n, F f) const {
    return fold<SumOp, R>(n, f);
  }
  template <class R, class F>
  __device__ R max(std::size_t n, F f) const {
    return fold<MaxOp, R>(n, f);
  }
  // An index runs on whichever thread; what it wrote is visible to the team afterwards.
  template <class F>
  __device__ void each(std::size_t n, F f) const {
    run_share(f, 0, n, threadIdx.x, kTeamLanes);
    __syncthreads();
  }
};

// On a simulated machine the same functors run in the same way, a block's threads one by one.
struct SimulatedTeam : HostTeam {
  template <class F>
  BELFRY_HD void each(std::size_t n, F f) const {
    for (std::size_t t = kTeamLanes; t-- > 0;) run_share(f, 0, n, t, kTeamLanes);
  }
};
template <class F>
void simulated_elements(const void* functor, std::size_t begin, std::size_t end) {
  const F f = *static_cast<const F*>(functor);
  if constexpr (HasArrays<F>) {
    for (std::size_t t = 3; t-- > 0;) run_share(f, begin, end, t, 3);
  } else {
    for (std::size_t i = begin; i < end; ++i) f(i);
  }
}
template <class F>
void simulated_rows(const void* functor, std::size_t begin, std::size_t end) {
  const F f = *static_cast<const F*>(functor);
  SimulatedTeam team;
  for (std::size_t r = begin; r < end; ++r) f(team, r);
}

template <class F>
__global__ void __launch_bounds__(kTeamLanes) row_kernel(F functor, std::size_t rows) {
  BlockTeam team;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) functor(team, row);
}

template <class F>
cudaError_t launch_kernel(void (*kernel)(F, std::size_t), void (*simulated)(const void*, std::size_t, std::size_t),
                          unsigned threads, std::size_t per_block, cudaStream_t stream,
                          KernelCall call) {
  alignas(F) unsigned char functor[sizeof(F)];
  std::memcpy(functor, call.functor, sizeof functor);
  std::size_t n = call.n;
  const std::size_t blocks = (n + per_block - 1) / per_block;
  void* arguments[] = {functor, &n};
  const void* address = reinterpret_cast<const void*>(kernel);
  if (belfry_sim_bind_kernel != nullptr) {
    call.host = simulated;
    belfry_sim_bind_kernel(address, call);
  }
  const auto grid = static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
  return cudaLaunchKernel(address, dim3(grid), dim3(threads), arguments, 0, stream);
}

template <class F>
void KernelTable::elements() {
  add(F::name, sizeof(F), [](CudaDevice&, cudaStream_t stream, const KernelCall& call) {
    return launch_kernel<F>(element_kernel<F>, simulated_elements<F>, kElementThreads,
                            kElementThreads * kElementUnroll, stream, call);
  });
}

template <class F>
void KernelTable::rows() {
  add(F::name, sizeof(F), [](CudaDevice&, cudaStream_t stream, const KernelCall& call) {
    return launch_kernel<F>(row_kernel<F>, simulated_rows<F>, kTeamLanes, 1, stream, call);
  });
}

}  // namespace belfry
