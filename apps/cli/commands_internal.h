// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
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
  CliIo io;
  Log log;

  void put(std::string_view text) const { io.out(text); }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    io.out(fmt::format(format, std::forward<Args>(args)...));
  }
};

// The library's log on the command's two outputs.
Log command_log(const CliIo& io);

// Prints to stderr where `aside`: for a command whose result takes stdout.
CliContext beside(const CliContext& context, bool aside);

// The config file, --set, --towers and --output of a command.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> assignments;
  std::optional<std::string> towers;

  void declare(CLI::App& command);
  TrainConfig load(const Registry& registry) const;
  // The files a run reads: the config and its data.
  std::vector<std::string> inputs(const TrainConfig& config) const;
};

// Throws CheckpointError "PATH does not exist".
void require_path(const std::string& path);
// The same for what a command takes its checkpoint from; of the config's output folder it says that
// it is that, also where it holds none.
void require_checkpoint(const std::string& path, bool output_folder);

// Each adds its subcommand; what the callback returns through `code` is the exit code.
using AddCommand = void (*)(CLI::App& app, CliContext& context, int& code);
void add_train(CLI::App& app, CliContext& context, int& code);
void add_eval(CLI::App& app, CliContext& context, int& code);
void add_predict(CLI::App& app, CliContext& context, int& code);
void add_check(CLI::App& app, CliContext& context, int& code);
void add_devices(CLI::App& app, CliContext& context, int& code);
void add_inspect(CLI::App& app, CliContext& context, int& code);
void add_bench(CLI::App& app, CliContext& context, int& code);

}  // namespace belfry
