// SPDX-License-Identifier: MIT
// The tests that simulated and real GPUs share, on the real ones. Exit status 77: there is none.
#define CATCH_CONFIG_RUNNER
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <exception>
#include <iostream>

#include "belfry/device/plugin.h"

int main(int argc, char** argv) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    std::cout << "skipped: there is no NVIDIA driver (" << dlerror() << ")\n";
    return 77;
  }
  try {
    if (belfry::cuda_module().gpus() == 0) {
      std::cout << "skipped: no GPU is visible (CUDA_VISIBLE_DEVICES hides them)\n";
      return 77;
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return Catch::Session().run(argc, argv);
}
