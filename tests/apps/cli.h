// SPDX-License-Identifier: MIT
// The command with its output caught, and a small CSV data set with a config for it.
#pragma once
#include <string>
#include <vector>

#include "belfry/apps/cli.h"
#include "belfry/tests/towers/runs.h"

namespace belfry::test {

struct CliResult {
  int code = 0;
  std::string out, err;
};

inline CliResult run_cli(
    const std::vector<std::string>& arguments, std::function<int()> signal = [] { return 0; },
    const Registry& registry = builtin()) {
  CliResult result;
  CliIo io;
  io.out = [&](std::string_view text) { result.out += text; };
  io.err = [&](std::string_view text) { result.err += text; };
  io.signal = std::move(signal);
  result.code = cli(registry, arguments, io);
  return result;
}

// A folder with data.csv (60 rows of 4 features, 3 classes), run.toml and, once trained, out/.
struct CliFolder {
  CliFolder() {
    std::string rows;
    for (int r = 0; r < 60; ++r) {
      for (int f = 0; f < 4; ++f)
        rows += std::to_string(f == r % 3 ? 3 + r % 5 : (r * 7 + f) % 3) + ",";
      rows += std::to_string(r % 3) + "\n";
    }
    write_text(folder / "data.csv", rows);
    config();
  }
  // Writes run.toml with lines added to the top level, to [optimizer] and at the end.
  void config(const std::string& top = "", const std::string& optimizer = "",
              const std::string& end = "") const {
    write_text(path(),
               "towers = \"cpu:2\"\nthreads_per_tower = 1\nbatch = 16\nepochs = 3\noutput = \"" +
                   out() + "\"\n" + top +
                   "\n[model]\nname = \"mlp\"\nhidden = [8]\n[data]\nname = \"csv\"\nfile = "
                   "\"data.csv\"\n[test]\n"
                   "[optimizer]\nlr = 0.1\n" +
                   optimizer + "\n" + end);
  }
  std::string path() const { return folder / "run.toml"; }
  std::string out() const { return folder / "out"; }
  bool untouched() const { return !std::filesystem::exists(out()); }
  TestFolder folder;
};

}  // namespace belfry::test
