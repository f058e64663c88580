// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace belfry {

enum class LogLevel : std::uint8_t { debug, info, warn, error };

// A handle on one message sink; copies share it. Silent by default, so the library prints only
// where a program has asked for it. Calls may come from any thread; the sink is called by one at a
// time and must not log itself. The only header of Belfry that includes fmt.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  Log();
  explicit Log(Sink sink, LogLevel least = LogLevel::info);
  // Debug and info to stdout, warnings and errors to stderr with "warning: " and "error: ".
  static Log console(LogLevel least = LogLevel::info);

  bool enabled(LogLevel level) const;
  void write(LogLevel level, std::string_view text) const;

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::debug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::warn, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    put(LogLevel::error, format, std::forward<Args>(args)...);
  }
  // A warning at the first call with `key`, nothing after it.
  template <class... Args>
  void warn_once(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    if (first_time(key)) put(LogLevel::warn, format, std::forward<Args>(args)...);
  }

 private:
  struct State;

  template <class... Args>
  void put(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }
  bool first_time(std::string_view key) const;

  std::shared_ptr<State> state_;
};

}  // namespace belfry
