// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdlib>

#include "belfry/apps/cli.h"
#include "belfry/core/registry.h"

namespace {

// libgomp's threads spin by default. With several threads a tower on a machine that does anything
// else, each parallel region then waits for a thread that is not running: an mlp fell from 46,000
// to 800 samples/s beside one busy process. libgomp reads its setting while it is loaded, so the
// program starts itself once more with it (some 10 ms); a setting of the user's is left alone.
void let_threads_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 0) == 0) execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  let_threads_sleep(argv);
  return belfry::cli(belfry::builtin(), argc, argv);
}
