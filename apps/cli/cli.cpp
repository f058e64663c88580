// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <sstream>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/version.h"

namespace belfry {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 ok, 2 config or usage, 3 data, 4 gradient, 5 non-finite numbers, 6 checkpoint,\n"
    "7 device, 8 communication, 9 a tower's own error, 70 unexpected, 130 SIGINT, 143 SIGTERM.";

// The library's log on the command's two outputs.
Log command_log(const CliIo& io) {
  return Log([io](LogLevel level, std::string_view text) {
    if (level < LogLevel::warn)
      io.out(std::string(text) + "\n");
    else
      io.err((level == LogLevel::warn ? "warning: " : "error: ") + std::string(text) + "\n");
  });
}

void write_all(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

int parse_and_run(CLI::App& app, const std::vector<std::string>& arguments, const CliIo& io,
                  const int& code) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return code;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool asked = app.exit(error, out, err) == 0;  // --help, --version
    if (!out.str().empty()) io.out(out.str());
    if (!err.str().empty()) io.err("error: " + err.str());
    return asked ? kExitOk : kExitConfig;
  } catch (const Error& error) {
    io.err(std::string("error: ") + error.what() + "\n");
    return exit_code_of(error.kind());
  } catch (const std::exception& error) {
    io.err(std::string("error: unexpected: ") + error.what() + "\n");
    return kExitUnexpected;
  }
}

}  // namespace

void ConfigArguments::declare(CLI::App& command) {
  command.add_option("config", path, "TOML file")->required();
  command.add_option("--set", assignments, "KEY=VALUE over the file, e.g. optimizer.lr=0.05")
      ->expected(1)
      ->take_all();
  command.add_option("--towers", towers, "instead of the file's, e.g. cpu:2");
}

TrainConfig ConfigArguments::load(const Registry& registry) const {
  Document document = Document::from_file(path);
  for (const std::string& assignment : assignments) document.set(assignment);
  if (!towers.empty()) document.set("towers=\"" + towers + "\"");
  return TrainConfig::load(std::move(document), registry);
}

int cli(const Registry& registry, const std::vector<std::string>& arguments, const CliIo& io) {
  CLI::App app("Belfry trains one model on many devices by averaging the gradients of its towers.",
               "belfry");
  app.set_version_flag("--version", std::string("belfry ") + kVersion);
  app.require_subcommand(1);
  app.footer(kFooter);
  CliContext context{registry, io, command_log(io)};
  int code = kExitOk;
  for (const AddCommand add : {add_train, add_eval, add_check, add_devices, add_inspect, add_bench})
    add(app, context, code);
  return parse_and_run(app, arguments, io, code);
}

int cli(const Registry& registry, int argc, char** argv) {
  CliIo io;
  io.out = [](std::string_view text) { write_all(stdout, text); };
  io.err = [](std::string_view text) { write_all(stderr, text); };
  io.live = ::isatty(STDOUT_FILENO) != 0;
  return cli(registry, std::vector<std::string>(argv + 1, argv + std::max(argc, 1)), io);
}

}  // namespace belfry
