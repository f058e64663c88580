// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

namespace belfry::bench {

// What every bench takes from its command line.
struct Options {
  std::string model = "mlp";
  int towers = 1;
  std::int64_t batch = 64;  // rows a tower
  std::int64_t elements = std::int64_t{25} << 20;
  int rounds = 7;
  std::string json;    // also write the figures there
  bool check = false;  // exit status 1 when a bound is missed
};

// Fills `options`. Returns false after printing a help text or a fault, with the exit status in
// `status`.
bool parse(int argc, char** argv, Options& options, int& status);

// main() of a bench: parses, runs, prints what run() throws. Exit status 0, 1 for a missed bound
// with --check or an error, 2 for a bad command line. `options` are the defaults.
int bench_main(int argc, char** argv, bool (*run)(const Options&), Options options = {});

}  // namespace belfry::bench
