// SPDX-License-Identifier: MIT
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/cuda/cuda_device.h"
#include "belfry/device/cuda/extension.h"
#include "belfry/device/plugin.h"
#include "belfry/version.h"

namespace belfry {

void add_kernels(KernelTable& table);  // generated: every kernel and library call of Belfry's

namespace {

class NamedKernels : public KernelTable {
 public:
  void add(const char* name, std::size_t functor_bytes, Launch launch) override {
    if (!kernels_.emplace(name, Kernel{functor_bytes, launch}).second)
      throw DeviceError(ErrorText{.what = "two CUDA kernels of one name", .found = name});
  }
  Launch find(const KernelCall& call) const override {
    const auto it = kernels_.find(call.name);
    if (it == kernels_.end())
      throw DeviceError(ErrorText{.what = "there is no CUDA kernel of this name",
                                  .found = call.name,
                                  .fix =
                                      "name it in the kernels_of_ list of its header, or load the "
                                      "plug-in that has it"});
    if (it->second.functor_bytes != call.functor_bytes)
      throw DeviceError(ErrorText{
          .what = std::string("CUDA kernel ") + call.name + " was built with another functor",
          .found = std::to_string(call.functor_bytes) + " bytes",
          .expected = std::to_string(it->second.functor_bytes),
          .fix = "build the plug-in and the library together"});
    return it->second.launch;
  }

 private:
  struct Kernel {
    std::size_t functor_bytes;
    Launch launch;
  };
  std::unordered_map<std::string_view, Kernel> kernels_;  // names are literals
};

int visible_gpus() {
  int n = 0;  // CUDA leaves it untouched when there is no driver
  const cudaError_t code = cudaGetDeviceCount(&n);
  if (code == cudaErrorNoDevice) {
    cudaGetLastError();
    return 0;
  }
  check_cuda(code, "cudaGetDeviceCount", 0);
  return n;
}

class CudaPlatform : public Platform {
 public:
  CudaPlatform(CudaOptions options, const KernelTable& kernels)
      : options_(std::move(options)), kernels_(kernels) {}
  std::unique_ptr<Host> host() override { return make_thread_host(); }
  std::unique_ptr<Device> device(int index, int) override {
    const auto i = static_cast<std::size_t>(index);
    return std::make_unique<CudaDevice>(options_.gpus.empty() ? index : options_.gpus.at(i),
                                        options_.precision, kernels_);
  }
  const void* extension(std::string_view name) const override { return find_extension(name); }

 private:
  CudaOptions options_;
  const KernelTable& kernels_;
};

class Module : public CudaModule {
 public:
  Module() { add_kernels(kernels_); }
  int gpus() const override { return visible_gpus(); }
  std::string describe(int gpu) const override {
    cudaDeviceProp p{};
    BELFRY_CUDA(gpu, cudaGetDeviceProperties, &p, gpu);
    const auto tenths =
        static_cast<unsigned long>(static_cast<double>(p.totalGlobalMem) / (1 << 30) * 10);
    return std::string(p.name) + ", " + std::to_string(tenths / 10) + "." +
           std::to_string(tenths % 10) + " GiB, compute " + std::to_string(p.major) + "." +
           std::to_string(p.minor);
  }
  std::string libraries() const override {
    int runtime = 0;
    BELFRY_CUDA(0, cudaRuntimeGetVersion, &runtime);
    return "CUDA " + std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10) +
           library_versions();
  }
  std::shared_ptr<Platform> platform(const CudaOptions& options) override {
    const int n = visible_gpus();
    for (const int gpu : options.gpus)
      if (gpu >= n)
        throw DeviceError(ErrorText{.what = "cuda:" + std::to_string(gpu) + " is not there",
                                    .found = std::to_string(n) + " visible GPUs",
                                    .fix = "`belfry devices` lists them"});
    if (n == 0)
      throw DeviceError(ErrorText{.what = "no CUDA devices",
                                  .found = "none is visible",
                                  .fix = "CUDA_VISIBLE_DEVICES hides GPUs"});
    return std::make_shared<CudaPlatform>(options, kernels_);
  }
  void load_kernels(const std::string& path) override {
    if (std::find(loaded_.begin(), loaded_.end(), path) != loaded_.end()) return;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto fail = [&](const char* found) {
      throw DeviceError(ErrorText{.what = "kernel plug-in " + path,
                                  .found = found,
                                  .fix = "build it with belfry_add_kernels (docs/gpu.md)"});
    };
    if (library == nullptr) fail(dlerror());
    const auto add = reinterpret_cast<void (*)(KernelTable&)>(dlsym(library, "belfry_kernels"));
    if (add == nullptr) fail("it has no belfry_kernels");
    add(kernels_);
    loaded_.push_back(path);
  }

 private:
  NamedKernels kernels_;
  std::vector<std::string> loaded_;
};

}  // namespace
}  // namespace belfry

extern "C" __attribute__((visibility("default"))) belfry::CudaModule* belfry_cuda_entry(
    unsigned abi, const char* version, const char** reason) noexcept {
  if (abi != belfry::kCudaAbi || std::strcmp(version, belfry::kVersion) != 0) {
    *reason = belfry::kVersion;
    return nullptr;
  }
  try {
    static belfry::Module module;
    return &module;
  } catch (const std::exception& e) {
    static const std::string text = e.what();
    *reason = text.c_str();
    return nullptr;
  }
}
