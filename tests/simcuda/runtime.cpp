// SPDX-License-Identifier: MIT
// Devices, errors, and what nvcc's objects call when they are loaded.
#include <cstdio>
#include <cstring>

#include "belfry/tests/simcuda/api.h"

using namespace belfry::sim;

namespace {

constexpr int kThreads = 1024, kShared = 48 << 10, kSharedOptIn = 227 << 10, kProcessors = 8;

bool exists(const State& s, int device) { return device >= 0 && device < s.devices; }

// The numbers of an H200, but few processors.
cudaDeviceProp properties(const State& s, int device) {
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "Simulated GPU");
  p.totalGlobalMem = s.memory.limit();
  p.sharedMemPerBlock = kShared;
  p.sharedMemPerBlockOptin = kSharedOptIn;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = kThreads;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = 9;
  p.multiProcessorCount = kProcessors;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = 1;
  p.streamPrioritiesSupported = p.cooperativeLaunch = 1;
  p.asyncEngineCount = 3;
  p.memoryBusWidth = 6144;
  p.l2CacheSize = 50 << 20;
  p.pciBusID = device + 1;
  return p;
}

int attribute(const State& s, cudaDeviceAttr what, int device, bool& known) {
  const cudaDeviceProp p = properties(s, device);
  switch (what) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return kShared;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return kSharedOptIn;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 228 << 10;
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCooperativeLaunch:
      return 1;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrIntegrated:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrManagedMemory:
      return 0;
    default:
      known = false;
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return api("cudaGetDeviceCount", [&](State& s) {
    *count = s.devices;
    return s.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api("cudaSetDevice", [&](State& s) {
    if (!exists(s, device)) return cudaErrorInvalidDevice;
    s.local().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api("cudaGetDevice", [&](State& s) {
    *device = s.local().device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return api("cudaGetDeviceProperties", [&](State& s) {
    if (!exists(s, device)) return cudaErrorInvalidDevice;
    *out = properties(s, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  return api("cudaDeviceGetAttribute", [&](State& s) {
    if (!exists(s, device)) return cudaErrorInvalidDevice;
    bool known = true;
    *value = attribute(s, what, device, known);
    return known ? cudaSuccess
                 : s.refuse(cudaErrorNotSupported, "the simulator lacks device attribute " +
                                                       std::to_string(static_cast<int>(what)));
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api("cudaDeviceGetPCIBusId", [&](State& s) {
    if (!exists(s, device)) return cudaErrorInvalidDevice;
    const int n =
        std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
    return n < length ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api("cudaDeviceGetStreamPriorityRange", [&](State&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api("cudaDeviceCanAccessPeer", [&](State& s) {
    if (!exists(s, device) || !exists(s, peer)) return cudaErrorInvalidDevice;
    *can = s.peers && device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api("cudaDeviceEnablePeerAccess", [&](State& s) {
    const int device = s.local().device;
    if (!exists(s, peer) || peer == device) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    if (!s.peers) return cudaErrorPeerAccessUnsupported;
    if (s.memory.peer(device, peer)) return cudaErrorPeerAccessAlreadyEnabled;
    s.memory.enable_peer(device, peer);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api(
      "cudaDeviceSynchronize",
      [&](State& s) {
        if (const cudaError_t e = s.may_wait("cudaDeviceSynchronize")) return e;
        s.wait_device(s.local().device, true);
        return s.broken;
      },
      Waits::yes);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api("cudaRuntimeGetVersion", [&](State&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api("cudaDriverGetVersion", [&](State&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

// Reading the error of a thread is not counted: it cannot fail.
cudaError_t cudaPeekAtLastError() {
  SimCuda* const sim = SimCuda::active();
  if (sim == nullptr) return cudaErrorInitializationError;
  State& s = sim->state();
  return s.broken != cudaSuccess ? s.broken : s.local().last;
}

cudaError_t cudaGetLastError() {
  const cudaError_t e = cudaPeekAtLastError();
  if (SimCuda::active() != nullptr) SimCuda::active()->state().local().last = cudaSuccess;
  return e;
}

#define NAMED(error) \
  case error:        \
    return #error
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    NAMED(cudaSuccess);
    NAMED(cudaErrorInvalidValue);
    NAMED(cudaErrorMemoryAllocation);
    NAMED(cudaErrorInitializationError);
    NAMED(cudaErrorInvalidConfiguration);
    NAMED(cudaErrorInvalidMemcpyDirection);
    NAMED(cudaErrorInvalidDeviceFunction);
    NAMED(cudaErrorNoDevice);
    NAMED(cudaErrorInvalidDevice);
    NAMED(cudaErrorInvalidResourceHandle);
    NAMED(cudaErrorIllegalState);
    NAMED(cudaErrorNotReady);
    NAMED(cudaErrorIllegalAddress);
    NAMED(cudaErrorPeerAccessAlreadyEnabled);
    NAMED(cudaErrorPeerAccessUnsupported);
    NAMED(cudaErrorLaunchFailure);
    NAMED(cudaErrorLaunchTimeout);
    NAMED(cudaErrorNotPermitted);
    NAMED(cudaErrorNotSupported);
    NAMED(cudaErrorStreamCaptureUnsupported);
    NAMED(cudaErrorStreamCaptureInvalidated);
    NAMED(cudaErrorStreamCaptureUnmatched);
    NAMED(cudaErrorStreamCaptureUnjoined);
    NAMED(cudaErrorStreamCaptureIsolation);
    NAMED(cudaErrorCapturedEvent);
    NAMED(cudaErrorStreamCaptureWrongThread);
    NAMED(cudaErrorECCUncorrectable);
    NAMED(cudaErrorUnknown);
    default:
      return "unrecognized error code";
  }
}
#undef NAMED

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return cudaGetErrorName(error);
  }
}

// ---- What nvcc's objects call. Nothing is loaded: host bodies come with each launch.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {}

}  // extern "C"
