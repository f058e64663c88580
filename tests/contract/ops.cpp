// SPDX-License-Identifier: MIT
// Every op of the registry against its reference, its own numerical gradient, the lazy executor and
// its list of misuses.
#include <algorithm>
#include <cmath>

#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/contract/op_runs.h"

namespace belfry {
namespace {

using namespace contract;

double scale_of(const Values& v) {
  double scale = 1;
  for (const double x : v) scale = std::max(scale, std::fabs(x));
  return scale;
}

void require_close(const Values& got, const Values& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  const double bound = tolerance * scale_of(expected);
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected[i]);
    if (!(error <= worst)) worst = error, at = i;
  }
  INFO("largest error " << worst << " at element " << at << ", bound " << bound);
  REQUIRE(worst <= bound);
}

double projection(const OpCase& c, const std::vector<Values>& v, Device& device) {
  Scope scope({});
  const Values out = c.run(inputs(c, v, DType::f64, device)).to_vector();
  const Values direction = sample_values(static_cast<std::int64_t>(out.size()), 1.0, 99);
  double total = 0;
  for (std::size_t i = 0; i < out.size(); ++i) total += out[i] * direction[i];
  return total;
}

// Central differences of at most 24 elements spread over the input.
void check_numerically(const OpCase& c, std::size_t input, const Values& gradient, Device& device) {
  std::vector<Values> v = values_of(c);
  const std::size_t n = v[input].size(), step = std::max<std::size_t>(1, n / 24);
  const double h = 1e-6;
  for (std::size_t i = 0; i < n; i += step) {
    const double x = v[input][i];
    v[input][i] = x + h;
    const double above = projection(c, v, device);
    v[input][i] = x - h;
    const double below = projection(c, v, device);
    v[input][i] = x;
    const double slope = (above - below) / (2 * h);
    INFO("input " << input << " element " << i << ": numerical " << slope << ", backward "
                  << gradient[i]);
    const double size = std::max({1.0, std::fabs(slope), std::fabs(above)});
    REQUIRE(std::fabs(slope - gradient[i]) <= 1e-6 * size);
  }
}

void check_case(const OpCase& c, Device& device, Device& lazy) {
  const Values expected = c.reference(values_of(c));
  const Gradients f32 = differentiate(c, DType::f32, device),
                  f64 = differentiate(c, DType::f64, device);
  require_close(f32.output, expected, c.tolerance);
  require_close(f64.output, expected, 1e-12);
  REQUIRE(f32.tracked == f64.tracked);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    require_close(f32.inputs[i], f64.inputs[i], std::max(1e-5, c.tolerance));
    if (c.smooth && f64.tracked && c.inputs[i].differentiable)
      check_numerically(c, i, f64.inputs[i], device);
  }
  const Gradients queued = differentiate(c, DType::f32, lazy);
  REQUIRE(queued.output == f32.output);
  REQUIRE(queued.inputs == f32.inputs);
}

}  // namespace

TEST_CASE("every op agrees with its reference and its numerical gradient", "[ops]") {
  const Registry registry = builtin();
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const auto lazy = make_cpu_device(1, 1, Executor::lazy);
  REQUIRE(registry.table<OpEntry>().names().size() >= 15);
  for (const auto& [name, entry] : registry.table<OpEntry>()) {
    REQUIRE_FALSE(entry.help.empty());
    bool empty = false, one = false;
    for (const OpCase& c : entry.cases()) {
      INFO(name << ", case " << c.label);
      check_case(c, *device, *lazy);
      empty = empty || c.label.find("empty") != std::string::npos;
      one = one || c.label.find("one element") != std::string::npos;
    }
    INFO(name);
    REQUIRE(empty);
    REQUIRE(one);
  }
}

TEST_CASE("ops give the same bits on two threads as on one", "[ops]") {
  const Registry registry = builtin();
  const auto one = make_cpu_device(0, 1, Executor::in_place);
  const auto two = make_cpu_device(1, 2, Executor::in_place);
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      INFO(name << ", case " << c.label);
      const Gradients a = differentiate(c, DType::f64, *one),
                      b = differentiate(c, DType::f64, *two);
      REQUIRE(a.output == b.output);
      REQUIRE(a.inputs == b.inputs);
    }
}

TEST_CASE("ops on detached inputs are not tracked", "[ops]") {
  const Registry registry = builtin();
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      INFO(name << ", case " << c.label);
      Tape tape;
      Scope scope({.tape = &tape});
      const Tensor out = c.run(inputs(c, values_of(c), DType::f32, *device));
      REQUIRE(out.tape() == nullptr);
      REQUIRE(tape.nodes().empty());
    }
}

TEST_CASE("only what is differentiated is computed", "[ops]") {
  // Each input alone on the tape: backward must not touch the others, and must give the same bits.
  const Registry registry = builtin();
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  for (const auto& [name, entry] : registry.table<OpEntry>())
    for (const OpCase& c : entry.cases()) {
      const Gradients all = differentiate(c, DType::f32, *device);
      for (std::size_t i = 0; i < c.inputs.size() && all.tracked; ++i) {
        if (!c.inputs[i].differentiable) continue;
        INFO(name << ", case " << c.label << ", input " << i);
        OpCase alone = c;
        for (std::size_t k = 0; k < c.inputs.size(); ++k)
          if (k != i && alone.inputs[k].differentiable)
            alone.inputs[k].differentiable = false, alone.inputs[k].fixed = DType::f32;
        REQUIRE(differentiate(alone, DType::f32, *device).inputs[i] == all.inputs[i]);
      }
    }
}

TEST_CASE("every misuse of an op is a GradientError that names what is wrong", "[ops]") {
  const Registry registry = builtin();
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  for (const auto& [name, entry] : registry.table<OpEntry>()) {
    const std::vector<OpMisuse> misuses = entry.misuses();
    INFO(name);
    REQUIRE_FALSE(misuses.empty());
    for (const OpMisuse& misuse : misuses) {
      INFO(name << ", misuse " << misuse.label);
      std::string message;
      try {
        misuse.run(*device);
        FAIL("nothing was thrown");
      } catch (const GradientError& e) {
        message = e.what();
      }
      for (const std::string& word : misuse.expected) {
        INFO(message);
        REQUIRE(message.find(word) != std::string::npos);
      }
    }
  }
}

}  // namespace belfry
