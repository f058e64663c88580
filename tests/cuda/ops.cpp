// SPDX-License-Identifier: MIT
// Every op of the registry on a simulated GPU: the plug-in's kernels by their host bodies, cuBLASLt
// and convolutions by plain ones; results and gradients against the CPU's.
#include <algorithm>
#include <cmath>

#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/contract/op_runs.h"
#include "belfry/tests/cuda/gpus.h"

using namespace belfry;
using namespace belfry::contract;

namespace {

double largest(const Values& v) {
  double scale = 1;
  for (const double x : v) scale = std::max(scale, std::fabs(x));
  return scale;
}

void require_close(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::fabs(got[i] - want[i]) / largest(want));
  REQUIRE(worst <= tolerance);
}

void compare(Precision precision, double tolerance) {
  const Registry registry = builtin();
  const auto cpu = make_cpu_device(0, 1, Executor::in_place);
  sim::Gpus gpus(1, {.seed = 1}, precision);
  const auto gpu = gpus.device();
  gpu->bind_thread();
  int cases = 0;
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      INFO(name << ", case " << c.label);
      const Gradients want = differentiate(c, DType::f32, *cpu),
                      got = differentiate(c, DType::f32, *gpu);
      require_close(got.output, want.output, std::max(tolerance, c.tolerance));
      REQUIRE(got.inputs.size() == want.inputs.size());
      for (std::size_t i = 0; i < want.inputs.size(); ++i)
        require_close(got.inputs[i], want.inputs[i], std::max(tolerance, c.tolerance));
      ++cases;
    }
  CHECK(cases > 100);
  CHECK(gpus.machine().reports() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("every op gives on a GPU what it gives on the CPU, in f32", "[cuda-sim]") {
  compare(Precision::f32, 1e-5);
}

TEST_CASE("products and convolutions in tf32 and bf16 stay near those in f32", "[cuda-sim]") {
  compare(Precision::tf32, 4e-3);
  compare(Precision::bf16, 4e-2);
}
