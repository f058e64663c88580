// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace belfry {

// f16 is for storage and gradient lists only; f64 for references and gradient checks (CPU).
enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8 };

std::size_t size_of(DType type) noexcept;
std::string_view name_of(DType type) noexcept;  // "f32"
bool is_floating(DType type) noexcept;

enum class Backend : std::uint8_t { cpu, cuda };

// What products and convolutions of f32 tensors compute in; they always add up in f32, and
// parameters and folds are f32. CPU devices know f32, and bf16 where the processor has it.
enum class Precision : std::uint8_t { f32, tf32, bf16 };

std::string_view name_of(Precision precision) noexcept;  // "tf32"
Precision parse_precision(std::string_view name);        // throws ConfigError

struct DeviceId {
  Backend backend = Backend::cpu;
  int index = 0;
  auto operator<=>(const DeviceId&) const = default;
};
std::string name_of(DeviceId id);  // "cpu:1"

// Extents of a row-major, contiguous array; rank 0 is a scalar. At most kMaxRank extents.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(const std::vector<std::int64_t>& extents);
  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const;  // negative counts from the end; throws GradientError
  std::int64_t size() const noexcept;       // product of the extents; 1 for a scalar
  Shape with(int axis, std::int64_t extent) const;
  std::vector<std::int64_t> extents() const;
  bool operator==(const Shape& other) const noexcept;
  std::string text() const;  // "[64, 784]"

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// One byte range that something put on a stream reads or writes.
struct Touch {
  const void* data;
  std::size_t bytes;
  bool write;
};

// The byte ranges of one stream operation. Production executors ignore them; the simulator finds
// missing waits with them.
class Touches {
 public:
  Touches& reads(const void* p, std::size_t bytes) { return add({p, bytes, false}); }
  Touches& writes(const void* p, std::size_t bytes) { return add({p, bytes, true}); }
  const Touch* begin() const { return count_ <= kInline ? inline_.data() : spill_.data(); }
  const Touch* end() const { return begin() + count_; }

 private:
  static constexpr std::size_t kInline = 8;  // most operations; no heap below it
  Touches& add(Touch t) {
    if (count_ < kInline) {
      inline_[count_] = t;
    } else {
      if (count_ == kInline) spill_.assign(inline_.begin(), inline_.end());
      spill_.push_back(t);
    }
    ++count_;
    return *this;
  }
  std::array<Touch, kInline> inline_{};
  std::vector<Touch> spill_;
  std::size_t count_ = 0;
};

}  // namespace belfry
