// SPDX-License-Identifier: MIT
// Tensors between the devices of one host thread.
#include "belfry/autodiff/device_scope.h"
#include "belfry/autodiff/op.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

void require_given(const Device& device, const Stream& stream) {
  if (stream.capturing())
    throw DeviceError(ErrorText{
        .what = "a tensor moves between devices while work is recorded on " + name_of(device.id()),
        .fix = "move it before, or train without capture"});
}

// By the stream of the target, behind what the source's has been given; memory of either may be
// used again at once.
void copy_between(const Tensor& from, const Tensor& to) {
  if (to.bytes() == 0) return;
  Device &source = from.device(), &target = to.device();
  const std::unique_ptr<Event> written = source.event(), copied = target.event();
  source.main().record(*written);
  target.main().wait(*written);
  target.main().copy(to.raw(), from.raw(), to.bytes());
  target.main().record(*copied);
  source.main().wait(*copied);
}

}  // namespace

Tensor Tensor::to(Device& device) const {
  Device& own = this->device();
  if (&own == &device) return *this;
  require_not_of_other_tower(own);
  require_not_of_other_tower(device);
  require_given(own, own.main());
  require_given(device, device.main());
  Tensor y = empty(shape_, type_, device);
  copy_between(*this, y);
  Tape* const tape = Scope::tape();
  if (tape != nullptr) tape->count_copy(own.id(), device.id(), bytes(), false);
  const auto backward = [tape, from = device.id(), to = own.id()](Backward& b) {
    const Tensor dx = b.into(0);
    copy_between(b.grad(), dx);
    tape->count_copy(from, to, dx.bytes(), true);
  };
  return recorded("to", std::move(y), backward, *this);
}

}  // namespace belfry
