// SPDX-License-Identifier: MIT
#include "belfry/device/types.h"

#include "belfry/core/error.h"

namespace belfry {

std::size_t size_of(DType type) noexcept {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

std::string_view name_of(DType type) noexcept {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

bool is_floating(DType type) noexcept {
  return type == DType::f32 || type == DType::f64 || type == DType::bf16 || type == DType::f16;
}

std::string_view name_of(Precision precision) noexcept {
  switch (precision) {
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::f32:
      break;
  }
  return "f32";
}

Precision parse_precision(std::string_view name) {
  for (const Precision p : {Precision::f32, Precision::tf32, Precision::bf16})
    if (name_of(p) == name) return p;
  throw ConfigError(
      ErrorText{.what = "precision", .found = std::string(name), .expected = "f32, tf32 or bf16"});
}

std::string name_of(DeviceId id) {
  return (id.backend == Backend::cpu ? "cpu:" : "cuda:") + std::to_string(id.index);
}

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::vector<std::int64_t>(extents)) {}

Shape::Shape(const std::vector<std::int64_t>& extents) {
  if (extents.size() > kMaxRank)
    throw GradientError(ErrorText{.what = "too many axes",
                                  .found = std::to_string(extents.size()),
                                  .expected = "at most " + std::to_string(kMaxRank)});
  for (const std::int64_t e : extents) {
    if (e < 0)
      throw GradientError(ErrorText{
          .what = "negative extent", .found = std::to_string(e), .expected = "0 or more"});
    extents_[static_cast<std::size_t>(rank_++)] = e;
  }
  std::int64_t size = 1;  // in bytes of f64 it must stay below 2^63
  for (const std::int64_t e : extents)
    if (e != 0 && (__builtin_mul_overflow(size, e, &size) || size > std::int64_t{1} << 59))
      throw GradientError(ErrorText{.what = "shape " + text() + " is too large"});
}

std::int64_t Shape::operator[](int axis) const {
  const int a = axis < 0 ? axis + rank_ : axis;
  if (a < 0 || a >= rank_)
    throw GradientError(ErrorText{.what = "axis out of range",
                                  .found = std::to_string(axis) + " of shape " + text(),
                                  .expected = "an axis below " + std::to_string(rank_)});
  return extents_[static_cast<std::size_t>(a)];
}

std::int64_t Shape::size() const noexcept {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= extents_[static_cast<std::size_t>(i)];
  return n;
}

Shape Shape::with(int axis, std::int64_t extent) const {
  static_cast<void>((*this)[axis]);  // range check
  Shape out = *this;
  out.extents_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)] = extent;
  return out;
}

std::vector<std::int64_t> Shape::extents() const {
  return {extents_.begin(), extents_.begin() + rank_};
}

bool Shape::operator==(const Shape& other) const noexcept {
  return rank_ == other.rank_ && extents_ == other.extents_;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(extents_[static_cast<std::size_t>(i)]);
  }
  return out + "]";
}

}  // namespace belfry
