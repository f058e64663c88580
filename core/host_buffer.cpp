// SPDX-License-Identifier: MIT
#include "belfry/core/host_buffer.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace belfry {

HostBuffer::HostBuffer(std::size_t floats) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20, kLine = 64;
  const std::size_t bytes = floats * sizeof(float);
  const std::size_t align = bytes >= kLargePage ? kLargePage : kLine;
  const std::size_t whole = (bytes / align + 1) * align;
  data_.reset(static_cast<float*>(std::aligned_alloc(align, whole)));
  if (data_ == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (align == kLargePage) ::madvise(data_.get(), whole, MADV_HUGEPAGE);  // only advice
#endif
}

void HostBuffer::Free::operator()(float* p) const noexcept { std::free(p); }

}  // namespace belfry
