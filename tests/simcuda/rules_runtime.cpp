// SPDX-License-Identifier: MIT
// Streams, events, launches and copies: correct programs give no report, wrong ones always do.
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr std::size_t kN = 100;

// Uploads x, adds it to y on another stream, downloads y. `faults`: waits left out.
struct Pipeline {
  bool wait_for_upload = true, wait_for_kernel = true, wait_at_end = true;
  std::vector<float> run() const {
    cudaStream_t copies = make_stream(), compute = make_stream();
    cudaEvent_t uploaded = make_event(), added = make_event();
    float *x = device_memory(kN), *y = device_memory(kN), *host = pinned_memory(2 * kN);
    belfry_sim_host_access(Touches().writes(host, kN * sizeof(float)));
    for (std::size_t i = 0; i < kN; ++i) host[i] = static_cast<float>(i);
    OK(cudaMemcpyAsync(x, host, kN * sizeof(float), cudaMemcpyHostToDevice, copies));
    OK(cudaEventRecord(uploaded, copies));
    OK(cudaMemsetAsync(y, 0, kN * sizeof(float), compute));
    if (wait_for_upload) OK(cudaStreamWaitEvent(compute, uploaded, 0));
    OK(launch(Axpy{2, x, y}, kN, compute));
    OK(launch(Axpy{1, x, y}, kN, compute));
    OK(cudaEventRecord(added, compute));
    if (wait_for_kernel) OK(cudaStreamWaitEvent(copies, added, 0));
    OK(cudaMemcpyAsync(host + kN, y, kN * sizeof(float), cudaMemcpyDeviceToHost, copies));
    if (wait_at_end) OK(cudaStreamSynchronize(copies));
    belfry_sim_host_access(Touches().reads(host + kN, kN * sizeof(float)));
    const std::vector<float> out(host + kN, host + 2 * kN);
    OK(cudaFree(x));
    OK(cudaFree(y));
    OK(cudaFreeHost(host));
    for (cudaStream_t s : {copies, compute}) OK(cudaStreamDestroy(s));
    for (cudaEvent_t e : {uploaded, added}) OK(cudaEventDestroy(e));
    return out;
  }
};

}  // namespace

TEST_CASE("a correct program of two streams gives its result and no report", "[cuda-sim]") {
  under_seeds(1, 100, [](SimCuda& sim) {
    const std::vector<float> out = Pipeline().run();
    for (std::size_t i = 0; i < kN; ++i) REQUIRE(out[i] == 3 * static_cast<float>(i));
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.leaks() == "");
    REQUIRE(sim.counts().launches == 2);
    REQUIRE(sim.counts().pageable_copies == 0);
  });
}

TEST_CASE("each missing wait is reported under every schedule", "[cuda-sim]") {
  for (int which = 0; which < 3; ++which)
    under_seeds(1, 40, [&](SimCuda& sim) {
      Pipeline program;
      (which == 0   ? program.wait_for_upload
       : which == 1 ? program.wait_for_kernel
                    : program.wait_at_end) = false;
      program.run();
      INFO("wait " << which);
      REQUIRE(reported(sim, "race: "));
    });
}

TEST_CASE("dropping any wait through the scheduler is reported", "[cuda-sim]") {
  for (std::uint64_t wait = 1; wait <= 2; ++wait)
    for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
      SimCuda sim(1, {.seed = seed, .drop_wait = {0, wait}});
      Pipeline().run();
      REQUIRE(reported(sim, "race: "));
    }
  SimCuda sim(1, {.seed = 3, .drop_sync = {0, 1}});
  Pipeline().run();
  REQUIRE(reported(sim, "race: "));
}

TEST_CASE("objects of nvcc link and run", "[cuda-sim]") {
  if (rules_axpy_address == nullptr) {
    WARN("nvcc is not there: its objects are not tested");
    return;
  }
  under_seeds(1, 10, [](SimCuda& sim) {
    cudaStream_t s = make_stream();
    float* x = to_device(std::vector<float>(kN, 3), s);
    float* y = to_device(std::vector<float>(kN, 1), s);
    const Axpy f{2, x, y};
    const KernelCall call{
        f.name, &f, sizeof f, kN, false, host_elements<Axpy>, functor_touches<Axpy>};
    belfry_sim_bind_kernel(rules_axpy_address(), call);
    OK(rules_axpy_launch(kN, f, s));
    belfry_sim_bind_kernel(rules_axpy_address(), call);
    rules_axpy_chevrons(kN, f, s);
    OK(cudaGetLastError());
    REQUIRE(from_device(y, kN, s) == std::vector<float>(kN, 13));
    REQUIRE(sim.reports() == kNothing);
    rules_axpy_chevrons(kN, f, s);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
    REQUIRE(reported(sim, "without a host body"));
  });
}

}  // namespace belfry::sim
