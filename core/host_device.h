// SPDX-License-Identifier: MIT
#pragma once

// Marks a function that a CUDA kernel may call; nothing for other compilers.
#ifdef __CUDACC__
#define BELFRY_HD __host__ __device__
#else
#define BELFRY_HD
#endif
