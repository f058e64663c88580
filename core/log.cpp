// SPDX-License-Identifier: MIT
#include "belfry/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <mutex>
#include <set>

namespace belfry {

struct Log::State {
  Sink sink;
  LogLevel least = LogLevel::info;
  std::mutex mutex;
  std::set<std::string, std::less<>> seen;
};

Log::Log() : state_(std::make_shared<State>()) {}

Log::Log(Sink sink, LogLevel least) : Log() {
  state_->sink = std::move(sink);
  state_->least = least;
}

Log Log::console(LogLevel least) {
  auto out =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  auto err =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  for (const auto& logger : {out, err}) {
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
  }
  const auto sink = [out, err](LogLevel level, std::string_view text) {
    if (level < LogLevel::warn) {
      out->info(text);
      return;
    }
    err->info("{}: {}", level == LogLevel::warn ? "warning" : "error", text);
  };
  return Log(sink, least);
}

bool Log::enabled(LogLevel level) const { return state_->sink && level >= state_->least; }

void Log::write(LogLevel level, std::string_view text) const {
  if (!enabled(level)) return;
  const std::lock_guard lock(state_->mutex);
  state_->sink(level, text);
}

bool Log::first_time(std::string_view key) const {
  const std::lock_guard lock(state_->mutex);
  return state_->seen.emplace(key).second;
}

}  // namespace belfry
