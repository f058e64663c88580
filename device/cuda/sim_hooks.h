// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/device/stream.h"

// What CUDA's own calls do not say, for a simulated runtime that stands in for the real one in
// tests. Weak: null in production, where each costs a comparison.
extern "C" {
// The next cudaLaunchKernel of this thread is `call`.
[[gnu::weak]] void belfry_sim_bind_kernel(const void* kernel, const belfry::KernelCall& call);
// The next cudaLaunchHostFunc of this thread touches these ranges.
[[gnu::weak]] void belfry_sim_bind_host_function(const belfry::Touches& touches);
// The host is about to read or write these ranges itself.
[[gnu::weak]] void belfry_sim_host_access(const belfry::Touches& touches);
}
