// SPDX-License-Identifier: MIT
#include "belfry/device/host_scratch.h"

#include <memory>
#include <new>

namespace belfry {
namespace {

struct Free {
  void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
};

}  // namespace

// Here and not in a header: a kernel is compiled once an instruction set, and thread-local memory
// of inline functions would be shared between these units by name.
void* host_scratch(std::size_t bytes) {
  thread_local std::unique_ptr<std::byte[], Free> kept;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    kept.reset();
    size = 0;
    kept.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
    size = bytes;
  }
  return kept.get();
}

}  // namespace belfry
