// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/device/cuda/sim_hooks.h"

namespace belfry {

CudaEvent::CudaEvent(int gpu, bool external) : gpu_(gpu), external_(external) {
  const CurrentDevice current(gpu);
  BELFRY_CUDA(gpu, cudaEventCreateWithFlags, &event_, cudaEventDisableTiming);
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::require_recorded() const {
  if (!recorded())
    throw DeviceError(ErrorText{.what = "wait for an event that was never recorded",
                                .fix = "record it on a stream first"});
}

bool CudaEvent::done() const {
  if (!recorded()) return false;
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  check_cuda(code, "cudaEventQuery", gpu_);
  return true;
}

void CudaEvent::wait_host() const {
  require_recorded();
  BELFRY_CUDA(gpu_, cudaEventSynchronize, event_);
}

CudaGraph::CudaGraph(int gpu, cudaGraph_t graph) : gpu_(gpu) {
  const cudaError_t code = cudaGraphInstantiate(&exec_, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(code, "cudaGraphInstantiate", gpu_);
}

CudaGraph::~CudaGraph() { cudaGraphExecDestroy(exec_); }

// A host function in the queue: owns what it needs until CUDA has run it.
struct CudaStream::HostCall {
  CudaStream* stream;
  std::shared_ptr<void> object;
  void (*invoke)(void*);
  bool once;
};

CudaStream::CudaStream(CudaDevice& device, int gpu, int priority) : device_(device), gpu_(gpu) {
  const CurrentDevice current(gpu);
  int least = 0, greatest = 0;
  BELFRY_CUDA(gpu, cudaDeviceGetStreamPriorityRange, &least, &greatest);
  BELFRY_CUDA(gpu, cudaStreamCreateWithPriority, &stream_, cudaStreamNonBlocking,
              priority > 0 ? greatest : least);
  device_.add(*this);
}

CudaStream::~CudaStream() {
  device_.remove(*this);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void CudaStream::record(Event& event) {
  auto& e = dynamic_cast<CudaEvent&>(event);
  const CurrentDevice current(gpu_);
  const bool outside = capturing_ && e.external();
  BELFRY_CUDA(gpu_, cudaEventRecordWithFlags, e.handle(), stream_,
              outside ? cudaEventRecordExternal : cudaEventRecordDefault);
  e.set_recorded();
}

void CudaStream::wait(const Event& event) {
  const auto& e = dynamic_cast<const CudaEvent&>(event);
  const bool outside = capturing_ && e.external();
  if (!outside) e.require_recorded();
  const CurrentDevice current(gpu_);
  BELFRY_CUDA(gpu_, cudaStreamWaitEvent, stream_, e.handle(),
              outside ? cudaEventWaitExternal : cudaEventWaitDefault);
}

void CudaStream::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentDevice current(gpu_);
  BELFRY_CUDA(gpu_, cudaMemcpyAsync, dst, src, bytes, cudaMemcpyDefault, stream_);
}

void CudaStream::fill(void* dst, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentDevice current(gpu_);
  BELFRY_CUDA(gpu_, cudaMemsetAsync, dst, byte, bytes, stream_);
}

void CudaStream::launch(const KernelCall& call) {
  const CurrentDevice current(gpu_);
  check_cuda(device_.kernels().find(call)(device_, stream_, call), call.name, gpu_);
}

void CudaStream::synchronize() {
  require_running("synchronize");
  BELFRY_CUDA(gpu_, cudaStreamSynchronize, stream_);
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CudaStream::host_access(const Touches& touches) {
  if (belfry_sim_host_access != nullptr) belfry_sim_host_access(touches);
}

void CudaStream::begin_capture() {
  if (capturing_) throw DeviceError("begin_capture: the stream is capturing already");
  const CurrentDevice current(gpu_);
  // Relaxed: an arena that has to grow may ask the system meanwhile.
  BELFRY_CUDA(gpu_, cudaStreamBeginCapture, stream_, cudaStreamCaptureModeRelaxed);
  capturing_ = true;
}

std::unique_ptr<Graph> CudaStream::end_capture() {
  if (!capturing_) throw DeviceError("end_capture: the stream is not capturing");
  const CurrentDevice current(gpu_);  // what is thrown here leaves the capture as it is
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(stream_, &graph);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  // After an error it may or may not have ended.
  if (code != cudaSuccess) cudaStreamIsCapturing(stream_, &status);
  capturing_ = status != cudaStreamCaptureStatusNone;
  check_cuda(code, "cudaStreamEndCapture", gpu_);
  return std::make_unique<CudaGraph>(gpu_, graph);
}

void CudaStream::replay(Graph& graph) {
  const CurrentDevice current(gpu_);
  BELFRY_CUDA(gpu_, cudaGraphLaunch, dynamic_cast<CudaGraph&>(graph).handle(), stream_);
}

// Itself, or joined to another stream's capture by a wait for its event.
bool CudaStream::in_capture() const {
  if (capturing_) return true;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BELFRY_CUDA(gpu_, cudaStreamIsCapturing, stream_, &status);
  return status != cudaStreamCaptureStatusNone;
}

void CudaStream::submit(const Touches& touches, Task task) {
  const bool recorded = in_capture();
  auto call =
      std::make_unique<HostCall>(HostCall{this, task.clone(task.object), task.invoke, !recorded});
  const CurrentDevice current(gpu_);
  if (belfry_sim_bind_host_function != nullptr) belfry_sim_bind_host_function(touches);
  BELFRY_CUDA(gpu_, cudaLaunchHostFunc, stream_, run_host_call, call.get());
  if (recorded)
    kept_.push_back(std::move(call));
  else
    call.release();  // the callback's now
}

void CudaStream::run_host_call(void* argument) {
  auto* call = static_cast<HostCall*>(argument);
  const std::unique_ptr<HostCall> owned(call->once ? call : nullptr);
  try {
    call->invoke(call->object.get());
  } catch (...) {
    const std::lock_guard lock(call->stream->mutex_);
    if (!call->stream->error_) call->stream->error_ = std::current_exception();
  }
}

}  // namespace belfry
