// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace belfry {

// At least `bytes` of the calling thread's own memory, 64-byte aligned, for the host body of a
// kernel while it runs. Kept for the next one and never smaller. Throws std::bad_alloc.
void* host_scratch(std::size_t bytes);

}  // namespace belfry
