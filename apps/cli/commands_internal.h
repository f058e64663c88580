// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/apps/cli.h"
#include "belfry/core/log.h"
#include "belfry/towers/train_config.h"

namespace belfry {

// What every command gets.
struct CliContext {
  const Registry& registry;
  const CliIo& io;
  Log log;

  void put(std::string_view text) const { io.out(text); }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    io.out(fmt::format(format, std::forward<Args>(args)...));
  }
};

// The config file, --set, --towers and --output of a command.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> assignments;
  std::string towers;

  void declare(CLI::App& command);
  TrainConfig load(const Registry& registry) const;
};

// Each adds its subcommand; what the callback returns through `code` is the exit code.
using AddCommand = void (*)(CLI::App& app, CliContext& context, int& code);
void add_train(CLI::App& app, CliContext& context, int& code);
void add_eval(CLI::App& app, CliContext& context, int& code);
void add_check(CLI::App& app, CliContext& context, int& code);
void add_devices(CLI::App& app, CliContext& context, int& code);
void add_inspect(CLI::App& app, CliContext& context, int& code);
void add_bench(CLI::App& app, CliContext& context, int& code);

}  // namespace belfry
