// SPDX-License-Identifier: MIT
#include <utility>

#include "belfry/core/error.h"
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/device/cuda/cudnn_plan.h"

namespace belfry {
namespace {

// cuDNN's handle of one device; plans keep it alive.
class Handle {
 public:
  explicit Handle(int gpu) {
    try {
      check_cudnn(cudnnCreate(&target_.handle), "cudnnCreate");
    } catch (const CudnnRefusal& refusal) {
      throw DeviceError(ErrorText{.what = "cuDNN does not start on cuda:" + std::to_string(gpu),
                                  .found = refusal.text});
    }
  }
  ~Handle() { cudnnDestroy(target_.handle); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const CudnnTarget& target() const { return target_; }

 private:
  CudnnTarget target_;
};

// In the device's slot.
struct Cudnn {
  std::shared_ptr<Handle> handle;
};

std::shared_ptr<Handle> handle_of(CudaDevice& device) {
  auto& handle = device.slot<Cudnn>().handle;
  if (!handle) handle = std::make_shared<Handle>(device.gpu());
  return handle;
}

struct Own {
  std::shared_ptr<Handle> handle;  // goes last
  std::shared_ptr<void> plan;
};

}  // namespace

ConvPlan plan_convolution(CudaDevice& device, const ConvProblem& problem, std::size_t budget) {
  auto handle = handle_of(device);
  ConvPlan plan = plan_convolution(handle->target(), problem, budget);
  const auto own = std::make_shared<Own>(Own{std::move(handle), plan.own});
  plan.own = std::shared_ptr<void>(own, own->plan.get());
  return plan;
}

void execute(CudaDevice& device, cudaStream_t stream, const ConvPlan& plan,
             const ConvPointers& pointers) {
  cudnnHandle_t handle = handle_of(device)->target().handle;
  const std::int64_t names[] = {kCudnnX, kCudnnWeight, kCudnnY, kCudnnBias};
  const void* const arrays[] = {pointers.x, pointers.weight, pointers.y, pointers.bias};
  const std::int64_t count = plan.adds_bias ? 4 : 3;
  try {
    check_cudnn(cudnnSetStream(handle, stream), "cudnnSetStream");
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, names);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, arrays);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers.workspace);
    pack.finalize();
    check_cudnn(cudnnBackendExecute(
                    handle, static_cast<const CudnnDescriptor*>(plan.own.get())->get(), pack.get()),
                "cudnnBackendExecute");
  } catch (const CudnnRefusal& refusal) {
    throw DeviceError(
        ErrorText{.what = text(plan.problem) + " failed on cuda:" + std::to_string(device.gpu()),
                  .found = refusal.text});
  }
}

}  // namespace belfry
