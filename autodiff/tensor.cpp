// SPDX-License-Identifier: MIT
#include "belfry/autodiff/tensor.h"

#include <cstring>

#include "belfry/core/error.h"
#include "belfry/device/kept_arena.h"

namespace belfry {
namespace {

template <class F>
void with_type(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Half{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
  }
}

template <class T>
constexpr bool kHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>;

}  // namespace

Storage::~Storage() {
  if (arena != nullptr) arena->give_back(data, bytes);
}

Tensor Tensor::empty(const Shape& shape, DType type, Device& device) {
  Tensor t;
  t.shape_ = shape;
  t.type_ = type;
  t.device_ = &device;
  t.storage_ = std::make_shared<Storage>();
  const std::size_t bytes = t.bytes();
  const std::shared_ptr<Arena> kept = arena_in_use(device);
  Arena& arena = kept ? *kept : device.arena();
  t.storage_->data = arena.take(bytes);
  t.storage_->arena = &arena;  // only now: a failed take has nothing to give back
  t.storage_->owner = kept;
  t.storage_->bytes = bytes;
  t.data_ = t.storage_->data;
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType type, Device& device) {
  Tensor t = empty(shape, type, device);
  device.main().fill(t.raw(), 0, t.bytes());
  return t;
}

Tensor Tensor::from(const std::vector<double>& values, const Shape& shape, DType type,
                    Device& device) {
  if (static_cast<std::int64_t>(values.size()) != shape.size())
    throw GradientError(ErrorText{.what = "tensor of shape " + shape.text(),
                                  .found = std::to_string(values.size()) + " values",
                                  .expected = std::to_string(shape.size())});
  Tensor t = empty(shape, type, device);
  std::vector<std::byte> host(t.bytes());
  with_type(type, [&]<class T>(T) {
    auto* out = reinterpret_cast<T*>(host.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (kHalf<T>)
        out[i] = T(static_cast<float>(values[i]));
      else
        out[i] = static_cast<T>(values[i]);
    }
  });
  device.main().copy(t.raw(), host.data(), host.size());
  device.main().synchronize();
  return t;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType type, Device& device,
                    std::shared_ptr<void> owner, MemoryKind kind) {
  Tensor t;
  t.shape_ = shape;
  t.type_ = type;
  t.device_ = &device;
  t.storage_ = std::make_shared<Storage>();
  t.storage_->data = data;
  t.storage_->owner = std::move(owner);
  t.storage_->kind = kind;
  t.data_ = data;
  return t;
}

Device& Tensor::device() const {
  if (device_ == nullptr) throw GradientError("use of an undefined tensor");
  return *device_;
}

void Tensor::throw_dtype(DType wanted) const {
  throw GradientError(ErrorText{.what = "tensor of shape " + shape_.text(),
                                .found = "type " + std::string(name_of(type_)),
                                .expected = std::string(name_of(wanted))});
}

Tensor Tensor::view(const Shape& shape) const {
  if (shape.size() != size())
    throw GradientError(
        ErrorText{.what = "reshape of " + shape_.text(),
                  .found = shape.text() + " with " + std::to_string(shape.size()) + " elements",
                  .expected = std::to_string(size()) + " elements"});
  Tensor t = detach();
  t.shape_ = shape;
  return t;
}

Tensor Tensor::rows(std::int64_t first, std::int64_t count) const {
  const std::int64_t n = shape_[0];
  if (first < 0 || count < 0 || first + count > n)
    throw GradientError(
        ErrorText{.what = "rows of " + shape_.text(),
                  .found = "[" + std::to_string(first) + ", " + std::to_string(first + count) + ")",
                  .expected = "within [0, " + std::to_string(n) + ")"});
  Tensor t = detach();
  t.shape_ = shape_.with(0, count);
  const std::size_t row = n == 0 ? 0 : bytes() / static_cast<std::size_t>(n);
  t.data_ = static_cast<std::byte*>(data_) + static_cast<std::size_t>(first) * row;
  return t;
}

Tensor Tensor::on(Device& device) const {
  const bool own = this->device().id() == device.id() && storage_->kind == MemoryKind::device;
  if (!own && !device.host_memory()) {
    Tensor copy = empty(shape_, type_, device);
    device.main().copy(copy.raw(), raw(), bytes());
    return copy;
  }
  if (!own && !host_readable())
    throw GradientError(ErrorText{.what = "tensor on " + name_of(this->device().id()),
                                  .found = "use on " + name_of(device.id()),
                                  .expected = "a copy: these devices do not share memory"});
  Tensor t = detach();
  t.device_ = &device;
  return t;
}

bool Tensor::host_readable() const {
  return device().host_memory() || storage_->kind == MemoryKind::pinned;
}

Tensor Tensor::detach() const {
  Tensor t = *this;
  t.set_value(nullptr, 0, -1);
  return t;
}

std::vector<double> Tensor::to_vector() const {
  std::vector<std::byte> host(bytes());
  device().main().fetch(host.data(), raw(), host.size());
  std::vector<double> out(static_cast<std::size_t>(size()));
  with_type(type_, [&]<class T>(T) {
    const auto* in = reinterpret_cast<const T*>(host.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if constexpr (kHalf<T>)
        out[i] = static_cast<double>(static_cast<float>(in[i]));
      else
        out[i] = static_cast<double>(in[i]);
    }
  });
  return out;
}

double Tensor::item() const {
  if (size() != 1)
    throw GradientError(ErrorText{.what = "item() of a tensor",
                                  .found = "shape " + shape_.text(),
                                  .expected = "one element"});
  return to_vector()[0];
}

}  // namespace belfry
