// SPDX-License-Identifier: MIT
#include "belfry/bench/common/options.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

namespace belfry::bench {

bool parse(int argc, char** argv, Options& o, int& status) {
  CLI::App app("A benchmark of Belfry");
  app.add_option("--model", o.model,
                 "model of the registry: on images of 28 x 28 x 1; gpt, 4 x 128: on 128 tokens")
      ->check(CLI::IsMember({"mlp", "lenet", "resnet20", "gpt"}))
      ->capture_default_str();
  app.add_option("--towers", o.towers, "towers, one thread each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--batch", o.batch, "rows a tower")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--elements", o.elements, "parameters in averaging and checkpoints")
      ->check(CLI::Range(std::int64_t{4096}, std::int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "interleaved rounds")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--json", o.json, "also write the figures to this file");
  app.add_flag("--check", o.check, "exit status 1 when a bound is missed");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    status = app.exit(e) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

int bench_main(int argc, char** argv, bool (*run)(const Options&), Options options) {
  try {
    int status = 0;
    if (!parse(argc, argv, options, status)) return status;
    const bool kept = run(options);
    return options.check && !kept ? 1 : 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

}  // namespace belfry::bench
