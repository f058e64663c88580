// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>

#include "belfry/core/host_device.h"

namespace belfry {

// Four neighbouring elements of an array that begins at a multiple of their size.
template <class T>
struct alignas(4 * sizeof(T)) Packet {
  T v[4];
};

// On GPUs a packet of 16 bytes is one access, which nvcc would otherwise split where elements are
// used under conditions. The arrays are in global memory.
template <class T>
BELFRY_HD void load(Packet<T>& to, const T* from) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof to == 16) {
    unsigned v[4];
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    std::memcpy(&to, v, sizeof to);
    return;
  }
#endif
  to = *reinterpret_cast<const Packet<T>*>(from);
}

template <class T>
BELFRY_HD void store(const Packet<T>& from, T* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof from == 16) {
    unsigned v[4];
    std::memcpy(v, &from, sizeof from);
    asm volatile("st.global.v4.b32 [%4], {%0, %1, %2, %3};" ::"r"(v[0]), "r"(v[1]), "r"(v[2]),
                 "r"(v[3]), "l"(__cvta_generic_to_global(to))
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Packet<T>*>(to) = from;
}

}  // namespace belfry
