// SPDX-License-Identifier: MIT
#include "belfry/core/host_buffer.h"

#include <cstdint>
#include <utility>

#include "belfry/tests/catch.h"

using namespace belfry;

TEST_CASE("host buffers hold what is written, small and large, and move without a copy") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{3} << 20}) {
    HostBuffer buffer(n);
    REQUIRE(buffer.data() != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    for (std::size_t i = 0; i < n; ++i) buffer.data()[i] = static_cast<float>(i % 1000);
    const float* const at = buffer.data();
    HostBuffer moved = std::move(buffer);
    CHECK(moved.data() == at);
    if (n > 0) CHECK(moved.data()[n - 1] == static_cast<float>((n - 1) % 1000));
  }
}
