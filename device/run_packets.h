// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belfry/core/host_device.h"
#include "belfry/device/packet.h"

// Four neighbouring elements at a time, for GPUs: one access of 16 bytes in place of four. An
// element functor may say which arrays it touches, all of them at its index alone:
//   template <class V> BELFRY_HD void arrays(V& v) { v.reads(x).updates(state).writes(y); }
// A packet's inputs are loaded, the functor runs on registers in the arrays' place, the outputs are
// stored: the same bits. What it does not write at every index it updates. Scalars stay as they
// are.
namespace belfry {

template <class F>
concept HasArrays = requires(F f, int& any) { f.arrays(any); };

struct PacketsAligned {
  bool all = true;
  template <class T>
  BELFRY_HD PacketsAligned& reads(T* p) {
    all = all && reinterpret_cast<std::uintptr_t>(p) % sizeof(Packet<T>) == 0;
    return *this;
  }
  template <class T>
  BELFRY_HD PacketsAligned& writes(T* p) {
    return reads(p);
  }
  template <class T>
  BELFRY_HD PacketsAligned& updates(T* p) {
    return reads(p);
  }
};

// Loads elements [at, at + 4) and points the functor at them.
struct PacketLoads {
  BELFRY_HD explicit PacketLoads(std::size_t first) : at(first) {}  // the rest is not set
  std::size_t at;
  int count = 0;
  alignas(32) unsigned char memory[10][32];
  template <class T>
  BELFRY_HD Packet<T>& slot(int k) {
    static_assert(sizeof(Packet<T>) <= sizeof memory[0]);
    return *reinterpret_cast<Packet<T>*>(memory[k]);
  }
  template <class T>
  BELFRY_HD PacketLoads& writes(T*& p) {
    p = slot<std::remove_const_t<T>>(count++).v;
    return *this;
  }
  template <class T>
  BELFRY_HD PacketLoads& reads(T*& p) {
    using Element = std::remove_const_t<T>;
    load(slot<Element>(count), p + at);
    return writes(p);
  }
  template <class T>
  BELFRY_HD PacketLoads& updates(T*& p) {
    return reads(p);
  }
};

// Stores what was written, to where the functor's own arrays are.
struct PacketStores {
  PacketLoads& from;
  int count = 0;
  template <class T>
  BELFRY_HD PacketStores& reads(T*) {
    ++count;
    return *this;
  }
  template <class T>
  BELFRY_HD PacketStores& writes(T* p) {
    store(from.slot<T>(count++), p + from.at);
    return *this;
  }
  template <class T>
  BELFRY_HD PacketStores& updates(T* p) {
    return writes(p);
  }
};

template <class F>
BELFRY_HD void run_packet(const F& f, std::size_t at) {
  PacketLoads loads(at);
  F inside = f;
  inside.arrays(loads);
  inside(0);  // no loop: the registers must be known at compile time
  inside(1);
  inside(2);
  inside(3);
  PacketStores stores{loads};
  F outside = f;
  outside.arrays(stores);
}

// A worker's share of f(begin..end-1): packets where the arrays allow them, and what is left.
template <class F>
BELFRY_HD void run_share(const F& f, std::size_t begin, std::size_t end, std::size_t worker,
                         std::size_t workers) {
  std::size_t first = end, last = end;  // of the packets
  if constexpr (HasArrays<F>) {
    const std::size_t whole = (begin + 3) / 4 * 4;
    PacketsAligned aligned;
    F copy = f;
    copy.arrays(aligned);
    if (aligned.all && whole < end) {
      first = whole, last = end / 4 * 4;
      for (std::size_t at = first + 4 * worker; at < last; at += 4 * workers) run_packet(f, at);
    }
  }
  for (std::size_t i = begin + worker; i < first; i += workers) f(i);
  for (std::size_t i = last + worker; i < end; i += workers) f(i);
}

}  // namespace belfry
