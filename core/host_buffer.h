// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>

namespace belfry {

// Floats on the host that nobody has written yet: whoever fills all of them need not have them
// zeroed before. Large ones ask for large pages, which makes the first write to them several times
// as fast. Throws std::bad_alloc.
class HostBuffer {
 public:
  explicit HostBuffer(std::size_t floats);
  float* data() noexcept { return data_.get(); }
  const float* data() const noexcept { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const noexcept;
  };
  std::unique_ptr<float, Free> data_;
};

}  // namespace belfry
