// SPDX-License-Identifier: MIT
// Ops with library calls and memory of their own in the iterations of a loop.
#include <vector>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/ops/elementwise/tanh.h"
#include "belfry/autodiff/ops/image/conv2d.h"
#include "belfry/autodiff/ops/index/scatter_add.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/matrix/matmul.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/autodiff/scope.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/loop.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;
using Values = std::vector<double>;

namespace {

constexpr std::int64_t kIterations = 24;

Tensor made(const Shape& shape, std::uint64_t seed, Device& device) {
  return Tensor::from(sample_values(shape.size(), 1.0, seed), shape, DType::f32, device);
}

// Products of sizes that differ, and a convolution, in each iteration.
std::vector<Values> products(Device& device, int at_once) {
  std::vector<Tensor> x, out(static_cast<std::size_t>(kIterations));
  for (std::int64_t i = 0; i < kIterations; ++i)
    x.push_back(made({16 + i % 5, 9}, static_cast<std::uint64_t>(i) + 1, device));
  const Tensor w = made({40, 9}, 70, device), bias = made({40}, 71, device),
               v = made({40, 33}, 72, device), image = made({2, 8, 8, 16}, 73, device),
               kernel = made({16, 3, 3, 16}, 74, device);
  Loop loop(device, kIterations, {.parallel_iterations = at_once}, [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    if (i % 6 == 5)
      out[k] = conv2d(image, kernel, {}, {.stride = 1, .padding = 1});
    else
      out[k] = matmul(tanh(linear(x[k], w, bias)), v);
  });
  std::vector<Values> first, all;
  for (int r = 0; r < 3; ++r) {
    loop.run();
    all.clear();
    for (const Tensor& t : out) all.push_back(t.to_vector());
    if (r == 0) first = all;
    CHECK(all == first);
  }
  return all;
}

}  // namespace

TEST_CASE("F81 library calls in iterations give the same bits for every parallel_iterations") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  device->bind_thread();
  const std::vector<Values> one = products(*device, 1);
  for (const int at_once : {2, 10}) CHECK(products(*device, at_once) == one);
  const auto alone = make_cpu_device(1, 1, Executor::in_place);
  alone->bind_thread();
  CHECK(products(*alone, 10) == one);
  // Outside, the device has all its threads and primitives again.
  device->bind_thread();
  CHECK(matmul(made({64, 64}, 1, *device), made({64, 64}, 2, *device)).to_vector().size() == 4096);
}

TEST_CASE("a loop in a pass: its ops are on the tape, and backward comes after it") {
  const auto device = make_cpu_device(0, 2, Executor::in_place);
  const auto gradient = [&](bool in_loop) {
    Tape tape;
    const Scope scope({.tape = &tape});
    const Tensor w = tape.leaf(made({5, 4}, 3, *device)), bias = made({5}, 4, *device);
    std::vector<Tensor> x, y(8);
    for (std::uint64_t i = 0; i < 8; ++i) x.push_back(made({3, 4}, 10 + i, *device));
    const auto body = [&](std::int64_t i) {
      const auto k = static_cast<std::size_t>(i);
      y[k] = sum(tanh(linear(x[k], w, bias)));
    };
    if (in_loop)
      parallel_for(*device, 8, {}, body);
    else
      for (std::int64_t i = 0; i < 8; ++i) body(i);
    Tensor loss = y[0];
    for (std::size_t k = 1; k < 8; ++k) loss = add(loss, y[k]);
    tape.backward(loss);
    return tape.grad(w).to_vector();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("a run of a loop may not write what an open pass needs") {
  for (const Executor e : {Executor::in_place, Executor::lazy, Executor::threaded}) {
    const auto device = make_cpu_device(0, 2, e);
    const Tensor table = made({8, 4}, 3, *device), value = made({1, 4}, 4, *device);
    const Tensor first = Tensor::zeros({1}, DType::i32, *device);
    Loop loop(*device, 8, {.name = "rows"}, [&](std::int64_t i) {
      scatter_add(table.rows(i, 1), first, value, Duplicates::sum);
    });
    loop.run();
    const auto before = table.to_vector();
    {
      Tape tape;
      const Scope scope({.tape = &tape});
      const Tensor w = tape.leaf(made({4, 4}, 5, *device));
      const Tensor loss = sum(matmul(table, w));
      CHECK_THROWS_AS(loop.run(), DeviceError);
      CHECK_THROWS_WITH(loop.run(), Contains("a run of loop 'rows' writes what a backward pass may "
                                             "need") &&
                                        Contains("128 bytes that hold memory of 'matmul'"));
      CHECK(table.to_vector() == before);
      tape.backward(loss);
      CHECK_NOTHROW(loop.run());
      device->synchronize();
    }
    CHECK(table.to_vector() != before);
    {
      Tape tape;  // a pass that uses other memory does not mind
      const Scope scope({.tape = &tape});
      const Tensor loss = sum(tape.leaf(made({4, 4}, 5, *device)));
      CHECK_NOTHROW(loop.run());
      tape.backward(loss);
      device->synchronize();
    }
  }
}
