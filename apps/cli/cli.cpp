// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <sstream>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/data/byte_file.h"
#include "belfry/device/context.h"
#include "belfry/version.h"

namespace belfry {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 ok, 2 config or usage, 3 data, 4 gradient, 5 non-finite numbers, 6 checkpoint,\n"
    "7 device, 8 communication, 9 a tower's own error, 70 unexpected, 129 SIGHUP, 130 SIGINT, 143 "
    "SIGTERM.";

void write_all(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// Throws ConfigError with the nearest name when the first argument should be a command and is none;
// then the same for the commands below it.
void check_command(const CLI::App& app, std::span<const std::string> arguments,
                   const std::string& kind) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (names.empty()) return;
  const std::string all = " Commands: " + listed(names);
  if (arguments.empty()) throw ConfigError("no " + kind + " is given." + all);
  const std::string& word = arguments[0];
  if (word.starts_with("-")) return;
  if (std::find(names.begin(), names.end(), word) != names.end())
    return check_command(*app.get_subcommand(word), arguments.subspan(1), word + " command");
  const std::string near = nearest_name(word, names);
  throw ConfigError("unknown " + kind + " '" + word + "'" +
                    (near.empty() ? "." : "; did you mean '" + near + "'?") + all);
}

// What is said of arguments that no command takes: the first option among them by its nearest name.
std::string extras_text(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& a) { return a.starts_with("-"); });
  if (option == extras.end()) return "arguments that no one asked for: " + listed(extras);
  std::vector<std::string> names;
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  for (const CLI::Option* o : command->get_options())
    for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
  const std::string given = option->substr(0, option->find('='));
  const auto longer = std::find_if(names.begin(), names.end(), [&given](const std::string& name) {
    return given.size() > 2 && name.starts_with(given);
  });
  const std::string near = longer != names.end() ? *longer : nearest_name(given, names);
  return "unknown option '" + given + "'" +
         (near.empty() ? "; options: " + listed(names) : "; did you mean '" + near + "'?");
}

int parse_and_run(CLI::App& app, const std::vector<std::string>& arguments, const CliIo& io,
                  const int& code) {
  try {
    check_command(app, arguments, "command");
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return code;
  } catch (const CLI::ExtrasError&) {
    io.err("error: " + extras_text(app) + "\nRun with --help for more information.\n");
    return kExitConfig;
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

Log command_log(const CliIo& io) {
  return Log([io](LogLevel level, std::string_view text) {
    if (level < LogLevel::warn)
      io.out(std::string(text) + "\n");
    else
      io.err((level == LogLevel::warn ? "warning: " : "error: ") + std::string(text) + "\n");
  });
}

CliContext beside(const CliContext& context, bool aside) {
  CliContext out = context;
  if (!aside) return out;
  out.io.out = out.io.err;
  out.log = command_log(out.io);
  return out;
}

std::vector<std::string> ConfigArguments::inputs(const TrainConfig& config) const {
  std::vector<std::string> out{path};
  const auto add = [&](const DataSource& source) {
    for (const std::string& file : source.files) out.push_back(path_in(config.base, file));
  };
  add(config.data);
  if (config.test) add(*config.test);
  if (config.validation) add(*config.validation);
  if (config.predict) add(*config.predict);
  return out;
}

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
  if (towers) document.set_string("towers", *towers, "--towers");
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
  for (const AddCommand add :
       {add_train, add_eval, add_predict, add_check, add_devices, add_inspect, add_bench})
    add(app, context, code);
  return parse_and_run(app, arguments, io, code);
}

int cli(const Registry& registry, int argc, char** argv) {
  CliIo io;
  io.out = [](std::string_view text) { write_all(stdout, text); };
  io.err = [](std::string_view text) { write_all(stderr, text); };
  io.live = ::isatty(STDOUT_FILENO) != 0;
  const int code = cli(registry, std::vector<std::string>(argv + 1, argv + std::max(argc, 1)), io);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  io.err("error: standard output cannot be written; it is not complete\n");
  return code == kExitOk ? kExitCheckpoint : code;
}

}  // namespace belfry
