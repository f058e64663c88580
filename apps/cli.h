// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/core/registry.h"

namespace belfry {

// Where a command writes, and what it may do to the process. Empty functions write to stdout and
// stderr, take the terminal's word for `live` and handle SIGINT and SIGTERM.
struct CliIo {
  std::function<void(std::string_view)> out, err;
  std::function<int()> signal;
  bool live = false;
};

// The belfry command over the plug-ins of `registry`: a program that adds its own model gets all of
// it. Returns the exit code (apps/cli/exit_codes.h); throws nothing.
int cli(const Registry& registry, int argc, char** argv);
// For tests and programs with their own front: `arguments` without the program's name.
int cli(const Registry& registry, const std::vector<std::string>& arguments, const CliIo& io);

}  // namespace belfry
