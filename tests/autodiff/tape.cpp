// SPDX-License-Identifier: MIT
#include "belfry/autodiff/tape.h"

#include <cmath>

#include "belfry/autodiff/module.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/tape.kernel.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/ops.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;
using Values = std::vector<double>;

namespace {

struct Fixture {
  std::unique_ptr<Device> device = make_cpu_device(0, 1, Executor::in_place);
  Tape tape;
  Scope scope{{.tape = &tape, .training = true}};
  Tensor leaf(const Values& v, GradSink* sink = nullptr) {
    return tape.leaf(
        Tensor::from(v, Shape{static_cast<std::int64_t>(v.size())}, DType::f32, *device), sink);
  }
  Values grad(const Tensor& t) { return tape.grad(t).to_vector(); }
};

}  // namespace

TEST_CASE("terms of one value are added; an input used twice in one op counts twice") {
  Fixture f;
  const Tensor x = f.leaf({2, -3});
  f.tape.backward(sum(add(mul(x, x), mul(x, x))));
  CHECK(f.grad(x) == Values{8, -12});
}

TEST_CASE("gradients of values nobody asked for are absent; cut edges are not differentiated") {
  Fixture f;
  const Tensor x = f.leaf({1, 2}), y = f.leaf({3, 4}), unused = f.leaf({5});
  const Tensor loss = sum(mul(x, y.detach()));
  const std::vector<bool> reach = f.tape.reachable(loss);
  CHECK(reach[static_cast<std::size_t>(x.value())]);
  CHECK_FALSE(reach[static_cast<std::size_t>(y.value())]);
  f.tape.backward(loss);
  CHECK(f.grad(x) == Values{3, 4});
  CHECK_FALSE(f.tape.grad(y).defined());
  CHECK_FALSE(f.tape.grad(unused).defined());
  CHECK_THROWS_WITH(f.tape.backward(loss), Contains("twice"));
}

TEST_CASE(
    "gradients go straight into a sink, accumulate across tapes and say when they are complete") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  std::vector<float> memory{7, 7};  // overwritten by the first term
  int complete = 0;
  GradSink sink{memory.data(), false, [&] { ++complete; }};
  for (int micro = 0; micro < 3; ++micro) {
    Tape tape;
    const Scope scope({.tape = &tape});
    const Tensor x = tape.leaf(Tensor::from({1, 10}, Shape{2}, DType::f32, *device), &sink);
    tape.backward(sum(add(mul(x, x), x)));
    CHECK(complete == micro + 1);
    CHECK(memory[0] == static_cast<float>(3 * (micro + 1)));
    CHECK(memory[1] == static_cast<float>(21 * (micro + 1)));
  }
}

TEST_CASE("the seed scales the gradient; a loss that is itself a leaf passes it on") {
  Fixture f;
  const Tensor x = f.leaf({3});
  f.tape.backward(sum(mul(x, x)), Tensor::from({5}, Shape{}, DType::f32, *f.device));
  CHECK(f.grad(x) == Values{30});
  Tape other;
  float memory = 0;
  GradSink sink{&memory, false, {}};
  const Tensor y = other.leaf(Tensor::from({3}, Shape{}, DType::f32, *f.device), &sink);
  other.backward(y, Tensor::from({4}, Shape{}, DType::f32, *f.device));
  CHECK(memory == 4);
}

TEST_CASE("an op that returns less than it declared, or something else, is named") {
  Fixture f;
  const Tensor x = f.leaf({1, 2});
  const auto broken = [&](BackwardFn backward) {
    Tape tape;
    const Scope scope({.tape = &tape});
    const Tensor leaf = tape.leaf(x.detach());
    Tensor out = Tensor::from({1}, Shape{}, DType::f32, *f.device);
    tape.backward(recorded("my_op", out, std::move(backward), leaf));
  };
  CHECK_THROWS_WITH(broken([](Backward&) {}),
                    Contains("my_op") && Contains("no gradient for input 0"));
  CHECK_THROWS_WITH(
      broken([&](Backward& b) { b.give(0, Tensor::zeros(Shape{3}, DType::f32, *f.device)); }),
      Contains("my_op") && Contains("[3]") && Contains("[2]"));
  CHECK_THROWS_WITH(
      broken([&](Backward& b) { b.give(0, Tensor::zeros(Shape{2}, DType::f64, *f.device)); }),
      Contains("f64") && Contains("f32"));
  CHECK_THROWS_WITH(broken([](Backward& b) {
                      b.into(0);
                      b.into(0);
                    }),
                    Contains("twice"));
  CHECK_THROWS_AS(broken([](Backward&) {}), GradientError);
}

TEST_CASE("F50 colocation: a gradient on another device than its forward op is found and named") {
  Fixture f;
  const auto elsewhere = make_cpu_device(3, 1, Executor::in_place);
  const Tensor x = f.leaf({1, 2});
  Tensor out = Tensor::from({1}, Shape{}, DType::f32, *f.device);
  const Tensor loss = recorded(
      "misplaced", out,
      [&](Backward& b) { b.give(0, Tensor::zeros(Shape{2}, DType::f32, *elsewhere)); }, x);
  CHECK_THROWS_WITH(f.tape.backward(loss),
                    Contains("misplaced") && Contains("cpu:3") && Contains("cpu:0"));
}

TEST_CASE("F52 the placement report names op, device, gradient's device and bytes") {
  Fixture f;
  const Tensor x = f.leaf({1, 2}), y = f.leaf({3, 4});
  const Tensor dead = mul(y, y);
  f.tape.backward(sum(relu(x)));
  const auto lines = f.tape.placement();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "mul on cpu:0, gradient on none, 8 bytes");
  CHECK(lines[1] == "relu on cpu:0, gradient on cpu:0, 8 bytes");
  CHECK(lines[2] == "sum on cpu:0, gradient on cpu:0, 4 bytes");
}

TEST_CASE("a loss that depends on nothing leaves every gradient absent") {
  Fixture f;
  const Tensor x = f.leaf({1});
  const Tensor constant = Tensor::from({1}, Shape{}, DType::f32, *f.device);
  CHECK(f.tape.reachable(constant) == std::vector<bool>{false});
  f.tape.backward(constant);
  CHECK_FALSE(f.tape.grad(x).defined());
}

TEST_CASE("nothing is recorded without a scope; views and slices share memory") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const Tensor x = Tensor::from({1, 2, 3, 4, 5, 6}, Shape{3, 2}, DType::f32, *device);
  CHECK(relu(x).tape() == nullptr);
  CHECK(x.view(Shape{6}).to_vector() == Values{1, 2, 3, 4, 5, 6});
  CHECK(x.rows(1, 2).to_vector() == Values{3, 4, 5, 6});
  CHECK(x.rows(1, 1).raw() == x.data<float>() + 2);
  CHECK_THROWS_AS(x.rows(2, 2), GradientError);
  CHECK_THROWS_WITH(x.view(Shape{5}), Contains("[3, 2]") && Contains("[5]"));
  CHECK_THROWS_AS(x.item(), GradientError);
  CHECK_THROWS_WITH(x.data<double>(), Contains("f32") && Contains("f64"));
  CHECK_THROWS_AS(Tensor().device(), GradientError);
}

TEST_CASE("modules name their variables by path, once") {
  struct Inner : Module {
    Inner(Module& p, const std::string& n) : Module(p, n) {}
    Variable w{*this, "w", Shape{2}, Init::uniform(0.5)};
  };
  struct Net : Module {
    Inner a{*this, "a"};
    ModuleList<Inner> list{*this, "list"};
    Variable b{*this, "b", Shape{}, Init::constant(3)};
    Net() {
      list.add();
      list.add();
    }
  };
  Net net;
  std::vector<std::string> names;
  for (const Variable* v : net.variables()) names.push_back(v->name());
  CHECK(names == std::vector<std::string>{"a.w", "list.0.w", "list.1.w", "b"});
  CHECK_THROWS_WITH(net.a.w.tensor(), Contains("a.w") && Contains("no memory yet"));
  struct Twice : Module {
    Inner a{*this, "a"}, b{*this, "a"};
  };
  CHECK_THROWS_AS(Twice(), ConfigError);
  struct Dotted : Module {
    Inner a{*this, "a.b"};
  };
  CHECK_THROWS_AS(Dotted(), ConfigError);
}

TEST_CASE("initial values depend on seed and name alone, and have the stated spread") {
  std::vector<float> a(10000), b(10000), c(10000), n(10000);
  initial_values("x", Init::uniform(0.5), 1, 10000, a.data());
  initial_values("x", Init::uniform(0.5), 1, 10000, b.data());
  initial_values("y", Init::uniform(0.5), 1, 10000, c.data());
  initial_values("x", Init::normal(2), 1, 10000, n.data());
  CHECK(a == b);
  CHECK(a != c);
  double mean = 0, square = 0, nm = 0, ns = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    REQUIRE((a[i] >= -0.5f && a[i] < 0.5f));
    mean += static_cast<double>(a[i]) / 1e4;
    square += static_cast<double>(a[i] * a[i]) / 1e4;
    nm += static_cast<double>(n[i]) / 1e4;
    ns += static_cast<double>(n[i] * n[i]) / 1e4;
  }
  CHECK(std::abs(mean) < 0.01);
  CHECK(square == Approx(1.0 / 12).epsilon(0.03));
  CHECK(std::abs(nm) < 0.07);
  CHECK(ns == Approx(4).epsilon(0.05));
}
