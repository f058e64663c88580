// SPDX-License-Identifier: MIT
// A net over two devices outside of a group: device_scope() and to().
#include <algorithm>

#include "belfry/autodiff/device_scope.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/elementwise/tanh.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;
using Values = std::vector<double>;

namespace {

struct Result {
  Values loss, dw1, dw2, dx;
  std::vector<std::string> placement;
  DeviceId of_dw1, of_dw2;
  bool operator==(const Result& o) const {
    return loss == o.loss && dw1 == o.dw1 && dw2 == o.dw2 && dx == o.dx;
  }
};

// tanh(x w1) on `first`, the second product and loss on `second`; the loss also uses the hidden
// values of `first` again, so that two terms meet there.
Result run(Device& first, Device& second, DType type) {
  Tape tape;
  const Scope scope({.tape = &tape});
  const auto leaf = [&](const Shape& shape, std::uint64_t seed, Device& device) {
    return tape.leaf(Tensor::from(sample_values(shape.size(), 1.0, seed), shape, type, device));
  };
  const Tensor x = leaf({5, 4}, 1, first), w1 = leaf({3, 4}, 2, first),
               w2 = leaf({2, 3}, 3, second);
  const Tensor none;
  Tensor hidden, loss;
  {
    const auto on = device_scope(first);
    hidden = tanh(linear(x, w1, Tensor::zeros(Shape{3}, type)));
  }
  {
    const auto on = device_scope(second);
    const Tensor moved = hidden.to(second);
    const Tensor y = linear(moved, w2, Tensor::zeros(Shape{2}, type));
    loss = mul(sum(mul(y, y)), sum(hidden.to(second)));
  }
  tape.backward(loss);
  const Tensor g1 = tape.grad(w1), g2 = tape.grad(w2);
  return {loss.to_vector(), g1.to_vector(),   g2.to_vector(),  tape.grad(x).to_vector(),
          tape.placement(), g1.device().id(), g2.device().id()};
}

}  // namespace

TEST_CASE("F50 gradients over two devices have the bits of one device, each where its op ran") {
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded})
    for (const DType type : {DType::f32, DType::f64}) {
      const auto one = make_cpu_device(0, 1, e), other = make_cpu_device(1, 1, e);
      const Result want = run(*one, *one, type), got = run(*one, *other, type);
      CHECK(got == want);
      CHECK(got.dw1 != Values(12, 0));
      CHECK(got.of_dw1 == DeviceId{Backend::cpu, 0});
      CHECK(got.of_dw2 == DeviceId{Backend::cpu, 1});
      const std::size_t bytes = 15 * size_of(type);
      CHECK(want.placement.size() + 4 == got.placement.size());
      const auto has = [&](const std::string& line) {
        return std::count(got.placement.begin(), got.placement.end(), line);
      };
      CHECK(has("tanh on cpu:0, gradient on cpu:0, " + std::to_string(bytes) + " bytes") == 1);
      CHECK(has("to on cpu:1, gradient on cpu:1, " + std::to_string(bytes) + " bytes") == 2);
      CHECK(has("copies from cpu:0 to cpu:1: 2 of values, " + std::to_string(2 * bytes) +
                " bytes; 0 of gradients, 0 bytes") == 1);
      CHECK(has("copies from cpu:1 to cpu:0: 0 of values, 0 bytes; 2 of gradients, " +
                std::to_string(2 * bytes) + " bytes") == 1);
    }
}

TEST_CASE("F50 the copy of a gradient runs on the device it goes to") {
  const auto one = make_cpu_device(0, 1, Executor::lazy),
             other = make_cpu_device(1, 1, Executor::lazy);
  Tape tape;
  const Scope scope({.tape = &tape});
  const Tensor x = tape.leaf(Tensor::from({1, 2}, Shape{2}, DType::f32, *one));
  const Tensor loss = sum(x.to(*other));
  tape.backward(loss);
  const Tensor dx = tape.grad(x);
  CHECK(dx.device().id() == DeviceId{Backend::cpu, 0});
  // The copy is queued on the first device, what it copies on the second.
  CHECK_THROWS_AS(one->main().host_access(Touches().reads(dx.raw(), 8)), DeviceError);
  CHECK_NOTHROW(other->main().host_access(Touches().reads(dx.raw(), 8)));
  CHECK(dx.to_vector() == Values{1, 1});
}

TEST_CASE(
    "to() of a tensor that is there is the tensor, of one without a gradient a counted copy") {
  const auto one = make_cpu_device(0, 1, Executor::in_place),
             other = make_cpu_device(1, 1, Executor::in_place);
  Tape tape;
  const Scope scope({.tape = &tape});
  const Tensor x = Tensor::from({1, 2, 3}, Shape{3}, DType::i32, *one);
  CHECK(x.to(*one).raw() == x.raw());
  CHECK(tape.placement().empty());
  const Tensor y = x.to(*other);
  CHECK(y.raw() != x.raw());
  CHECK(y.device().id() == DeviceId{Backend::cpu, 1});
  CHECK(y.to_vector() == Values{1, 2, 3});
  CHECK(y.tape() == nullptr);
  CHECK(tape.placement() == std::vector<std::string>{"copies from cpu:0 to cpu:1: 1 of values, 12 "
                                                     "bytes; 0 of gradients, 0 bytes"});
  one->main().begin_capture();
  CHECK_THROWS_WITH(x.to(*other), Contains("cpu:0") && Contains("recorded"));
  CHECK_THROWS_AS(y.to(*one), DeviceError);
  one->main().end_capture();
}

TEST_CASE("in a device_scope tensors are made there, and ops elsewhere are errors") {
  const auto one = make_cpu_device(0, 1, Executor::in_place),
             other = make_cpu_device(1, 1, Executor::in_place);
  CHECK_THROWS_WITH(Tensor::zeros(Shape{2}, DType::f32), Contains("device_scope()"));
  Tape tape;
  const Scope scope({.tape = &tape});
  const Tensor x = tape.leaf(Tensor::from({1, 2}, Shape{2}, DType::f32, *one));
  {
    const auto outer = device_scope(*other);
    CHECK(Tensor::zeros(Shape{2}, DType::f32).device().id().index == 1);
    CHECK_THROWS_AS(tanh(x), GradientError);
    CHECK_THROWS_WITH(tanh(x), Contains("tanh") && Contains("cpu:0") && Contains("cpu:1") &&
                                   Contains("x.to(device)"));
    CHECK(tanh(x.to(*other)).device().id().index == 1);
    {
      const auto inner = device_scope(*one);
      CHECK(Tensor::from({1}, Shape{1}, DType::f32).device().id().index == 0);
      CHECK(tanh(x).device().id().index == 0);
    }
    CHECK(Tensor::empty(Shape{2}, DType::f32).device().id().index == 1);
  }
  CHECK(tanh(x).device().id().index == 0);
}
