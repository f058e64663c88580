// SPDX-License-Identifier: MIT
// Allocation, copies and fills.
#include <algorithm>
#include <cstring>

#include "belfry/tests/simcuda/api.h"
#include "belfry/tests/simcuda/graph.h"

using namespace belfry::sim;

namespace {

std::uintptr_t at(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// In a block of ours or out of all regions: memory of the host's heap and stack.
enum class Place : std::uint8_t { device, pinned, pageable };
Place place(State& s, const void* p) {
  const Block* const b = s.memory.find(at(p));
  if (b == nullptr) return s.memory.ours(at(p)) ? Place::device : Place::pageable;
  return b->device == Memory::kPinned ? Place::pinned : Place::device;
}

bool fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

Node copy_node(const CUstream_st& st, void* to, const void* from, std::size_t bytes) {
  Node node;
  node.what = "copy on " + st.name;
  node.toucher = Toucher::copy;
  node.touches = {{at(from), at(from) + bytes, false}, {at(to), at(to) + bytes, true}};
  node.body = [=] { std::memmove(to, from, bytes); };
  return node;
}

// From pageable memory the stream is waited for, then the bytes are taken at once and go to the
// device later; to pageable memory the call returns when they are there.
cudaError_t copy_pageable(State& s, CUstream_st* st, void* to, const void* from,
                          std::size_t bytes) {
  ++s.counts.pageable_copies;
  if (st->capture != nullptr) {
    st->capture->invalid = true;
    return s.refuse(cudaErrorStreamCaptureUnsupported, "a copy of pageable memory is captured");
  }
  if (const cudaError_t e = s.may_wait("a copy of pageable memory", st)) return e;
  if (place(s, from) == Place::pageable) {
    s.scheduler.synchronize(st->queue, true, false);
    s.scheduler.host_access({at(from), at(from) + bytes, false},
                            s.name("copy from pageable memory"));
    const auto* const first = static_cast<const std::byte*>(from);
    const auto staged = std::make_shared<std::vector<std::byte>>(first, first + bytes);
    if (place(s, to) != Place::pageable) {
      Node node = copy_node(*st, to, staged->data(), bytes);
      node.touches.erase(node.touches.begin());
      node.body = [staged, to] { std::memcpy(to, staged->data(), staged->size()); };
      return s.put(st, std::move(node));
    }
  }
  const cudaError_t e = s.put(st, copy_node(*st, to, from, bytes));
  s.scheduler.synchronize(st->queue, true, false);
  return e != cudaSuccess ? e : s.broken;
}

cudaError_t copy(State& s, const char* call, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t stream) {
  CUstream_st* const st = s.usable(stream, call);
  if (st == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const Place there = place(s, to), here = place(s, from);
  if (!fits(kind, there, here))
    return s.refuse(cudaErrorInvalidValue,
                    std::string(call) + ": the kind of copy does not fit the pointers");
  if (there == Place::pageable || here == Place::pageable)
    return copy_pageable(s, st, to, from, bytes);
  return s.put(st, copy_node(*st, to, from, bytes));
}

cudaError_t allocate_pinned(const char* call, void** out, std::size_t bytes) {
  return api(call, [&](State& s) -> cudaError_t {
    if (const cudaError_t e = check_capture(s, call)) return e;
    s.may_allocate(call, s.local().device);
    *out = s.memory.take(Memory::kPinned, bytes);
    if (*out == nullptr) return cudaErrorMemoryAllocation;
    ++s.counts.pinned_mallocs;
    ++s.counts.live_pinned;
    return cudaSuccess;
  });
}

// Waits as cudaFree does: freed memory is not in use.
cudaError_t release(State& s, const char* call, void* p, bool pinned) {
  if (p == nullptr) return cudaSuccess;
  Block* const b = s.memory.find(at(p));
  if (b == nullptr || b->lo != at(p) || b->freed || (b->device == Memory::kPinned) != pinned)
    return s.refuse(cudaErrorInvalidValue, std::string(call) + " of what it did not allocate");
  if (const cudaError_t e = check_capture(s, call)) return e;
  const int device = pinned ? s.local().device : b->device;
  s.may_allocate(call, device);
  for (int d = 0; d < s.devices; ++d)
    if (pinned || d == device) s.wait_device(d, false);
  s.scheduler.freed(b->lo, b->lo + b->bytes);
  s.memory.give_back(*b);
  return s.broken;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return api("cudaMalloc", [&](State& s) -> cudaError_t {
    if (const cudaError_t e = check_capture(s, "cudaMalloc")) return e;
    const int device = s.local().device;
    s.may_allocate("cudaMalloc", device);
    *out = nullptr;
    if (++s.counts.mallocs == s.fail_malloc) return cudaErrorMemoryAllocation;
    if (bytes == 0) return cudaSuccess;
    *out = s.memory.take(device, bytes);
    if (*out == nullptr) return cudaErrorMemoryAllocation;
    ++s.counts.live_blocks;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* p) {
  return api("cudaFree", [&](State& s) {
    const cudaError_t e = release(s, "cudaFree", p, false);
    if (e == cudaSuccess && p != nullptr) {
      ++s.counts.frees;
      --s.counts.live_blocks;
    }
    return e;
  });
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
  return allocate_pinned("cudaMallocHost", out, bytes);
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return allocate_pinned("cudaHostAlloc", out, bytes);
}

cudaError_t cudaFreeHost(void* p) {
  return api("cudaFreeHost", [&](State& s) {
    const cudaError_t e = release(s, "cudaFreeHost", p, true);
    if (e == cudaSuccess && p != nullptr) {
      ++s.counts.pinned_frees;
      --s.counts.live_pinned;
    }
    return e;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api("cudaMemGetInfo", [&](State& s) {
    *total = s.memory.limit();
    *free = *total - s.memory.used(s.local().device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api("cudaMemcpyAsync",
             [&](State& s) { return copy(s, "cudaMemcpyAsync", to, from, bytes, kind, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  return api("cudaMemcpyPeerAsync", [&](State& s) -> cudaError_t {
    const Block *const a = s.memory.find(at(to)), *const b = s.memory.find(at(from));
    if (bytes != 0 &&
        (a == nullptr || b == nullptr || a->device != to_device || b->device != from_device))
      return s.refuse(cudaErrorInvalidValue,
                      "cudaMemcpyPeerAsync: the pointers are not of the devices it names");
    return copy(s, "cudaMemcpyPeerAsync", to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

// On the default stream of the current device, which the product's streams do not wait for.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return api(
      "cudaMemcpy",
      [&](State& s) -> cudaError_t {
        ++s.counts.blocking_copies;
        if (const cudaError_t e = s.may_wait("cudaMemcpy")) return e;
        if (bytes == 0) return cudaSuccess;
        if (!fits(kind, place(s, to), place(s, from)))
          return s.refuse(cudaErrorInvalidValue,
                          "cudaMemcpy: the kind of copy does not fit the pointers");
        CUstream_st* const st = s.null_stream(s.local().device);
        const cudaError_t e = s.put(st, copy_node(*st, to, from, bytes));
        s.scheduler.synchronize(st->queue, true, false);
        return e != cudaSuccess ? e : s.broken;
      },
      Waits::yes);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return api("cudaMemsetAsync", [&](State& s) -> cudaError_t {
    CUstream_st* const st = s.usable(stream, "cudaMemsetAsync");
    if (st == nullptr) return cudaErrorInvalidResourceHandle;
    if (st->device != s.local().device)
      return s.refuse(cudaErrorInvalidResourceHandle,
                      "cudaMemsetAsync on a stream of another device than the current one");
    if (bytes == 0) return cudaSuccess;
    if (place(s, to) == Place::pageable)
      return s.refuse(cudaErrorInvalidValue, "cudaMemsetAsync of pageable memory");
    Node node;
    node.what = "fill on " + st->name;
    node.touches = {{at(to), at(to) + bytes, true}};
    node.body = [=] { std::memset(to, value, bytes); };
    return s.put(st, std::move(node));
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  return api("cudaPointerGetAttributes", [&](State& s) {
    *out = {};
    const Block* const b = s.memory.find(at(p));
    out->device = b == nullptr ? s.local().device : std::max(b->device, 0);
    if (b == nullptr || b->freed) {
      out->type = cudaMemoryTypeUnregistered;
      out->hostPointer = const_cast<void*>(p);
      return cudaSuccess;
    }
    const bool pinned = b->device == Memory::kPinned;
    out->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    out->devicePointer = const_cast<void*>(p);
    out->hostPointer = pinned ? const_cast<void*>(p) : nullptr;
    return cudaSuccess;
  });
}

}  // extern "C"
