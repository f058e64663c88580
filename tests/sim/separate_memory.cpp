// SPDX-License-Identifier: MIT
// What devices with memory of their own report, and how a host that touches it ends.
#include <sys/wait.h>
#include <unistd.h>

#include "belfry/autodiff/tensor.h"
#include "belfry/device/kernel.h"
#include "belfry/device/pinned.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/sim/platform.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

using Reports = std::vector<std::string>;

struct Double {
  static constexpr const char* name = "double";
  const float* in;
  float* out;
  BELFRY_HD void operator()(std::size_t i) const { out[i] = 2 * in[i]; }
  void touches(Touches& t, std::size_t n) const { t.reads(in, n * 4).writes(out, n * 4); }
};

// Two devices and what is reported after `body` and the end of all that it has queued.
template <class Body>
Reports reported(Body body) {
  SimPlatform platform({.seed = 1}, true);
  const auto host = platform.host();
  const auto a = platform.device(0, 1), b = platform.device(1, 1);
  CHECK(!a->host_memory());
  body(*a, *b, platform);
  a->synchronize();
  b->synchronize();
  return platform.scheduler().reports();
}

Tensor four(Device& device) { return Tensor::from({1, 2, 3, 4}, {4}, DType::f32, device); }

bool survives(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a host that touches device memory ends there", "[separate]") {
  const Reports reports = reported([](Device& a, Device&, SimPlatform&) {
    const Tensor x = four(a);
    CHECK(survives([] {}));
    CHECK(!survives([&] { x.data<float>()[0] = 1; }));
    CHECK(!survives([&] {
      if (x.data<float>()[0] == 1) ::_exit(0);
    }));
    const Pinned p(a, 16);
    CHECK(survives([&] { *p.at<float>() = 1; }));
    CHECK(x.to_vector() == std::vector<double>{1, 2, 3, 4});
  });
  CHECK(reports == Reports{});
}

TEST_CASE("kernels on their own and pinned memory, and copies anywhere, are right", "[separate]") {
  const Reports reports = reported([](Device& a, Device& b, SimPlatform& platform) {
    const Tensor x = four(a), y = Tensor::empty({4}, DType::f32, a);
    const Tensor there = Tensor::empty({4}, DType::f32, b);
    const Pinned p(a, 16);
    launch_elements(a.main(), 4, Double{x.data<float>(), y.data<float>()});
    launch_elements(a.main(), 4, Double{y.data<float>(), p.at<float>()});
    a.synchronize();
    a.main().host_access(Touches().reads(p.at<float>(), 16));
    CHECK(p.at<float>()[3] == 16);
    b.main().copy(there.raw(), y.raw(), 16);
    CHECK(there.to_vector() == std::vector<double>{2, 4, 6, 8});
    CHECK(platform.memory().pageable_copies() == 2);  // of from() and to_vector()
  });
  CHECK(reports == Reports{});
}

TEST_CASE("a kernel on memory of others is reported with its name", "[separate]") {
  const Reports reports = reported([](Device& a, Device& b, SimPlatform&) {
    const Tensor x = four(a), y = Tensor::empty({4}, DType::f32, b);
    static float ordinary[4];
    launch_elements(a.main(), 4, Double{x.data<float>(), y.data<float>()});
    launch_elements(a.main(), 4, Double{x.data<float>(), ordinary});
    launch_elements(b.main(), 4, Double{ordinary, y.data<float>()});
    a.synchronize();
  });
  REQUIRE(reports.size() >= 3);
  CHECK(reports[0] == "double on cpu:0 main writes memory of device 1");
  CHECK(reports[1] == "double on cpu:0 main writes host memory that is not pinned");
  CHECK(reports[2] == "double on cpu:1 main reads host memory that is not pinned");
}

TEST_CASE("a pageable copy without a synchronize after it is reported", "[separate]") {
  for (const bool waits : {true, false}) {
    const Reports reports = reported([waits](Device& a, Device&, SimPlatform&) {
      const Tensor x = four(a), y = Tensor::empty({4}, DType::f32, a);
      static const float ordinary[4] = {};
      a.main().copy(x.raw(), ordinary, 16);
      if (waits) a.synchronize();
      launch_elements(a.main(), 4, Double{x.data<float>(), y.data<float>()});
    });
    if (waits)
      CHECK(reports == Reports{});
    else
      CHECK(reports == Reports{"copy on cpu:0 main of pageable memory is not followed by a "
                               "synchronize but by double on cpu:0 main"});
  }
}

TEST_CASE("pinned memory has to be announced, to write and to read", "[separate]") {
  for (const bool announces : {true, false}) {
    const Reports reports = reported([announces](Device& a, Device&, SimPlatform&) {
      const Tensor x = four(a);
      const Pinned in(a, 16), out(a, 16);
      if (announces) a.main().host_access(Touches().writes(in.at<float>(), 16));
      for (int i = 0; i < 4; ++i) in.at<float>()[i] = 1;
      a.main().copy(x.raw(), in.at<float>(), 16);
      for (int k = 0; k < 2; ++k) {
        a.main().copy(out.at<float>(), x.raw(), 16);
        a.synchronize();
        if (announces) a.main().host_access(Touches().reads(out.at<float>(), 16));
      }
    });
    if (announces)
      CHECK(reports == Reports{});
    else
      CHECK(reports ==
            Reports{"copy on cpu:0 main reads pinned memory that nobody has announced or written",
                    "copy on cpu:0 main writes pinned memory that nobody has announced to read"});
  }
}
