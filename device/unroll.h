// SPDX-License-Identifier: MIT
#pragma once

// Before a loop of at most 16 rounds whose number the compiler knows: all of them in a row, so that
// arrays they index stay in registers. Host code; nvcc, which knows no such pragma, makes none of
// it.
#if defined(__CUDACC__)
#define BELFRY_UNROLL
#else
#define BELFRY_UNROLL _Pragma("GCC unroll 16")
#endif
