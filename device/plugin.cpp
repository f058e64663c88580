// SPDX-License-Identifier: MIT
#include "belfry/device/plugin.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "belfry/core/error.h"
#include "belfry/version.h"

namespace belfry {
namespace {

constexpr const char* kFile = "libbelfry_cuda.so";

// Why the driver cannot be used; empty when it can. 0.3 ms, where loading the plug-in takes 0.3 s.
std::string driver_fault() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) return {};
  const char* text = dlerror();
  return text != nullptr ? text : "libcuda.so.1 cannot be opened";
}

std::string plugin_path() {
  if (const char* given = std::getenv("BELFRY_CUDA_PLUGIN")) return given;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&driver_fault), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string self = info.dli_fname;
    const std::string beside = self.substr(0, self.rfind('/') + 1) + kFile;
    if (void* found = dlopen(beside.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(found);
      return beside;
    }
    if (FILE* file = std::fopen(beside.c_str(), "rb")) {
      std::fclose(file);
      return beside;
    }
  }
  return kFile;
}

[[noreturn]] void fail(const std::string& what, const std::string& found, const std::string& fix) {
  throw DeviceError(ErrorText{.what = what, .found = found, .fix = fix});
}

CudaModule& load() {
  const std::string path = plugin_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = dlerror();
    const std::string why = text != nullptr ? text : path + " cannot be opened";
    if (why.find(path) == 0)
      fail("the CUDA plug-in is not there", why,
           "build Belfry where nvcc is (BELFRY_CUDA=ON), or name it in BELFRY_CUDA_PLUGIN");
    fail("the CUDA plug-in cannot be loaded", why,
         "install the library that is named, or build the plug-in without it");
  }
  using Entry = decltype(&belfry_cuda_entry);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "belfry_cuda_entry"));
  if (entry == nullptr) fail("not a Belfry plug-in", path, "name another in BELFRY_CUDA_PLUGIN");
  const char* reason = "";
  CudaModule* module = entry(kCudaAbi, kVersion, &reason);
  if (module == nullptr)
    fail("the CUDA plug-in is of another build", path + ": " + reason,
         "build the plug-in and the library together");
  return *module;
}

// Loads once; what failed may be tried again.
CudaModule& loaded() {
  static CudaModule& module = load();
  return module;
}

}  // namespace

CudaModule& cuda_module() {
  if (const std::string fault = driver_fault(); !fault.empty())
    fail("no CUDA devices: there is no NVIDIA driver", fault,
         "install the driver, or ask for CPU towers explicitly, e.g. towers = \"cpu:2\"");
  return loaded();
}

std::vector<std::string> cuda_diagnosis() {
  std::vector<std::string> lines;
  const std::string fault = driver_fault();
  lines.push_back("driver: " + (fault.empty() ? "found" : fault));
  try {
    CudaModule& module = loaded();
    lines.push_back("plug-in: " + module.libraries());
    if (!fault.empty()) return lines;
    const int n = module.gpus();
    for (int gpu = 0; gpu < n; ++gpu)
      lines.push_back("cuda:" + std::to_string(gpu) + ": " + module.describe(gpu));
    if (n == 0) lines.emplace_back("devices: none is visible (CUDA_VISIBLE_DEVICES hides them)");
  } catch (const Error& e) {
    lines.push_back("plug-in: " + std::string(e.what()));
  }
  return lines;
}

}  // namespace belfry
