// SPDX-License-Identifier: MIT
// A GPU that need not be here: what cuDNN plans for.
#pragma once

namespace belfry::test {

// cuDNN's own text of a device's properties, filled in for an NVIDIA H200.
inline constexpr const char* kH200 = R"({"cudaDeviceId":0,"deviceName":"NVIDIA H200",
"deviceVer":900,"driverVer":13000,"isTccDriver":0,"l2CacheSize":62914560,"maxCtasPerSM":32,
"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"memClockRateKHz":3201000,
"multiProcessorCount":132,"pciDeviceId":0,"regsPerBlock":65536,"reservedSharedMemoryPerBlock":1024,
"smClockRateKHz":1980000,"supportCoopLaunch":1,"totalGlobalMem":150000000000,"warpSize":32,
"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64]})";

}  // namespace belfry::test
