// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/device/device.h"
#include "belfry/device/half.h"
#include "belfry/device/types.h"

namespace belfry {

class Tape;

// The device of the innermost device_scope() of this thread; throws GradientError without one.
Device& device_in_scope();

// A block of device memory, returned to its arena with the last tensor that uses it. With no arena
// it is a view of memory owned elsewhere, kept alive by `owner`.
struct Storage {
  Arena* arena = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  std::shared_ptr<void> owner;
  ~Storage();
};

// A row-major array on one device. A cheap handle: copies share memory. Not synchronised: one
// thread and one device at a time. Ops on it are asynchronous; to_vector() and item() wait.
class Tensor {
 public:
  Tensor() = default;
  // Uninitialised memory from the device's arena.
  static Tensor empty(const Shape& shape, DType type, Device& device = device_in_scope());
  static Tensor zeros(const Shape& shape, DType type, Device& device = device_in_scope());
  // Values converted to `type`; the count must match the shape. Waits.
  static Tensor from(const std::vector<double>& values, const Shape& shape, DType type,
                     Device& device = device_in_scope());
  // A view of memory somebody else owns; `owner` is kept alive as long as the view.
  static Tensor wrap(void* data, const Shape& shape, DType type, Device& device,
                     std::shared_ptr<void> owner = {}, MemoryKind kind = MemoryKind::device);

  bool defined() const noexcept { return storage_ != nullptr; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t size() const noexcept { return shape_.size(); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size()) * size_of(type_); }
  DType dtype() const noexcept { return type_; }
  Device& device() const;  // throws GradientError when undefined
  void* raw() const noexcept { return data_; }
  // Typed pointer into device memory; throws GradientError on another dtype.
  template <class T>
  T* data() const {
    if (type_ != dtype_of<T>()) throw_dtype(dtype_of<T>());
    return static_cast<T*>(data_);
  }

  // The same elements under another shape of equal size, without a gradient.
  Tensor view(const Shape& shape) const;
  // Rows [first, first + count) of the leading axis as a view, without a gradient.
  Tensor rows(std::int64_t first, std::int64_t count) const;
  // The same elements for another device: the same memory where it is the device's own or all is
  // the host's, else a copy by its main stream, which needs the source until it has run. A source
  // in another device's memory must be complete.
  Tensor on(Device& device) const;
  // The same values in memory of `device`, differentiable: the tensor itself where it lies there
  // already, else a copy in the order of both main streams, which the placement report counts. Its
  // gradient is copied back to the device of this tensor. For one host thread that drives both
  // devices; throws DeviceError while either is recorded.
  Tensor to(Device& device) const;
  bool host_readable() const;
  // The same memory without a gradient: cuts the tape.
  Tensor detach() const;

  // Host copies; wait for the device's main stream.
  std::vector<double> to_vector() const;
  double item() const;  // the only element

  // Tape bookkeeping: the tape that recorded this value and its number there; null when none.
  Tape* tape() const noexcept { return tape_; }
  std::uint64_t tape_serial() const noexcept { return tape_serial_; }  // tapes may share an address
  int value() const noexcept { return value_; }
  void set_value(Tape* tape, std::uint64_t serial, int value) noexcept {
    tape_ = tape, tape_serial_ = serial, value_ = value;
  }
  bool unique() const noexcept { return storage_.use_count() == 1; }

 private:
  [[noreturn]] void throw_dtype(DType wanted) const;
  std::shared_ptr<Storage> storage_;
  void* data_ = nullptr;
  Device* device_ = nullptr;
  Shape shape_;
  Tape* tape_ = nullptr;
  std::uint64_t tape_serial_ = 0;
  int value_ = -1;
  DType type_ = DType::f32;
};

}  // namespace belfry
