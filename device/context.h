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

namespace belfry {

// What a context is made of. The default is CPU devices on threads of this process; a simulator or
// another kind of device takes its place. Lives as long as everything made by it.
class Platform {
 public:
  virtual ~Platform() = default;
  virtual std::unique_ptr<Host> host() = 0;
  virtual std::unique_ptr<Device> device(int index, int threads) = 0;
};

struct ContextOptions {
  std::string towers = "cpu:1";  // "cpu:N"
  std::uint64_t seed = 1;
  int threads_per_tower = 0;  // 0: cores / towers, at least 1
  Executor executor = Executor::in_place;
  std::shared_ptr<Platform> platform{};  // none: the CPU, with `executor`
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
  Device& device(int tower) const { return *devices_.at(static_cast<std::size_t>(tower)); }
  Host& host() const noexcept { return *host_; }
  std::uint64_t seed() const noexcept { return options_.seed; }
  const ContextOptions& options() const noexcept { return options_; }
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
};

// "cpu:4" -> 4. Throws ConfigError naming the text and the accepted forms.
int parse_towers(const std::string& text);

}  // namespace belfry
