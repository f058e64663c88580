// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/core/log.h"
#include "belfry/device/communicator.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/device.h"
#include "belfry/device/platform.h"

namespace belfry {

struct ContextOptions {
  std::string towers = "cpu:1";  // "cpu:N", "cuda:all", "cuda:0,1", "cuda:0x4"
  std::uint64_t seed = 1;
  int threads_per_tower = 0;  // 0: cores / towers, at least 1
  Executor executor = Executor::in_place;
  Precision precision = Precision::f32;  // of products and convolutions; bf16 where the CPU has it
  std::vector<std::string> kernels{};    // users' own CUDA kernels: plug-in files
  std::shared_ptr<Platform> platform{};  // none: the CPU with `executor`, or the CUDA plug-in
  Log log{};                             // silent unless given
};

// What a run is made of: one device a tower, the host threads, the log, the seed. Owns them; must
// outlive every group, loader and tensor made with it. Throws ConfigError on a bad tower string and
// DeviceError when a device is not there.
class Context {
 public:
  explicit Context(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int towers() const noexcept { return static_cast<int>(devices_.size()); }
  bool threads_asked() const noexcept { return threads_asked_; }  // not derived from the cores
  // The CUDA plug-in or what was given; null on plain CPU devices.
  const Platform* platform() const noexcept { return options_.platform.get(); }
  Device& device(int tower) const;  // ConfigError where there is no such tower
  Host& host() const noexcept { return *host_; }
  std::uint64_t seed() const noexcept { return options_.seed; }
  const ContextOptions& options() const noexcept { return options_; }
  // Expires with the context: groups that outlive it say so.
  std::weak_ptr<const void> life() const noexcept { return life_; }
  // One line: towers, devices, threads.
  std::string describe() const;
  const Log& logger() const noexcept { return options_.log; }
  template <class... Args>
  void log(fmt::format_string<Args...> format, Args&&... args) const {
    logger().info(format, std::forward<Args>(args)...);
  }

 private:
  ContextOptions options_;
  bool threads_asked_;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::shared_ptr<const void> life_ = std::make_shared<char>();  // last: gone before the others
};

}  // namespace belfry
