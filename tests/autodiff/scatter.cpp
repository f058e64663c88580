// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/elementwise/relu.h"
#include "belfry/autodiff/ops/index/scatter_add.h"
#include "belfry/autodiff/ops/index/scatter_update.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/autodiff/scope.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/loop.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;
using Values = std::vector<double>;

namespace {

struct Fixture {
  std::unique_ptr<Device> device = make_cpu_device(0, 2, Executor::in_place);
  Tensor of(const Values& v) const {
    return Tensor::from(v, Shape{static_cast<std::int64_t>(v.size())}, DType::f32, *device);
  }
  Tensor indices(const Values& v) const {
    return Tensor::from(v, Shape{static_cast<std::int64_t>(v.size())}, DType::i32, *device);
  }
};

}  // namespace

TEST_CASE("F83 scatter in place takes no memory and copies nothing") {
  const Fixture f;
  constexpr std::int64_t kRows = 1 << 20;
  const Tensor table = Tensor::zeros(Shape{kRows, 4}, DType::f32, *f.device);
  const Tensor i = f.indices({5, kRows - 1}),
               v = Tensor::from({1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 4}, DType::f32, *f.device);
  const ArenaStats before = f.device->arena().stats();
  scatter_update(table, i, v, Duplicates::reject);
  scatter_add(table, i, v, Duplicates::sum);
  scatter_update(table.rows(7, 1), f.indices({0}), v.rows(1, 1), Duplicates::last);
  const ArenaStats after = f.device->arena().stats();
  CHECK(after.peak_bytes - before.live_bytes <= 64);  // the index made here
  CHECK(after.live_bytes == before.live_bytes);
  CHECK(table.rows(5, 3).to_vector() == Values{2, 4, 6, 8, 0, 0, 0, 0, 5, 6, 7, 8});
  CHECK(table.rows(kRows - 1, 1).to_vector() == Values{10, 12, 14, 16});
}

TEST_CASE("F83 what becomes of an index that comes twice is said by the caller") {
  const Fixture f;
  const Tensor i = f.indices({3, 1, 3, 0}), v = f.of({1, 2, 4, 8});
  Tensor x = f.of({10, 10, 10, 10});
  scatter_add(x, i, v, Duplicates::sum);
  CHECK(x.to_vector() == Values{18, 12, 10, 15});
  scatter_update(x, i, v, Duplicates::last);
  CHECK(x.to_vector() == Values{8, 2, 10, 4});
  const Values before = x.to_vector();
  for (const std::int64_t rows : {4, 100000}) {  // by a bit each row, and by sorting
    x = Tensor::zeros(Shape{rows}, DType::f32, *f.device);
    CHECK_THROWS_AS(scatter_add(x, i, v, Duplicates::reject), DataError);
    CHECK_THROWS_WITH(scatter_update(x, i, v, Duplicates::reject),
                      Contains("places 0 and 2") && Contains("found 3"));
    CHECK(x.rows(0, 4).to_vector() == Values{0, 0, 0, 0});
  }
  CHECK_THROWS_WITH(scatter_add(x, f.indices({0, -1}), f.of({1, 1}), Duplicates::sum),
                    Contains("place 1") && Contains("-1"));
  CHECK_THROWS_WITH(scatter_update(x, f.indices({100000}), f.of({1}), Duplicates::last),
                    Contains("[0, 100000)"));
  CHECK(x.rows(0, 1).to_vector() == Values{0});
}

TEST_CASE("in place, what a backward may need is an error, afterwards and elsewhere it is not") {
  const Fixture f;
  const Tensor constant = f.of({2, 3}), i = f.indices({0}), v = f.of({7});
  Tensor free = f.of({1, 1});
  Tape tape;
  Tensor loss, w;
  {
    const Scope scope({.tape = &tape});
    w = tape.leaf(f.of({5, 6}));
    const Tensor product = mul(w, constant);  // backward reads both
    loss = sum(relu(product));
    CHECK_THROWS_AS(scatter_update(constant, i, v, Duplicates::last), GradientError);
    CHECK_THROWS_WITH(scatter_update(constant, i, v, Duplicates::last),
                      Contains("target") && Contains("'mul'"));
    CHECK_THROWS_WITH(scatter_add(w, i, v, Duplicates::sum), Contains("a tensor with a gradient"));
    CHECK_THROWS_WITH(scatter_add(w.detach(), i, v, Duplicates::sum), Contains("'mul'"));
    CHECK_THROWS_WITH(scatter_add(product.detach(), i, v, Duplicates::sum), Contains("recorded"));
    CHECK_THROWS_WITH(scatter_add(free, i, w.rows(0, 1).detach(), Duplicates::last),
                      Contains("reject or sum"));
    CHECK_THROWS_WITH(scatter_add(free, f.indices({0, 1}), w, Duplicates::sum),
                      Contains("values") && Contains("gradient"));
    scatter_add(free, i, w.detach().rows(0, 1), Duplicates::sum);
  }
  // Between the passes as well.
  CHECK_THROWS_WITH(scatter_update(constant.rows(1, 1), i, v, Duplicates::last), Contains("'mul'"));
  tape.backward(loss);
  CHECK(tape.grad(w).to_vector() == Values{2, 3});
  scatter_update(constant, i, v, Duplicates::last);
  CHECK(constant.to_vector() == Values{7, 3});
  CHECK(free.to_vector() == Values{6, 1});
}

TEST_CASE("in place, values and indices may not lie in the target") {
  const Fixture f;
  const Tensor t = Tensor::from({1, 2, 3, 4, 5, 6}, {3, 2}, DType::f32, *f.device);
  CHECK_THROWS_WITH(scatter_update(t, f.indices({1, 2}), t.rows(0, 2), Duplicates::reject),
                    Contains("values") && Contains("memory of the target"));
  CHECK_THROWS_AS(scatter_add(t, f.indices({2, 1, 0}), t, Duplicates::sum), GradientError);
  CHECK(t.to_vector() == Values{1, 2, 3, 4, 5, 6});
  const Tensor pair = t.rows(0, 2);  // rows side by side share nothing
  scatter_update(pair, f.indices({1}), t.rows(2, 1), Duplicates::reject);
  CHECK(t.to_vector() == Values{1, 2, 5, 6, 5, 6});
}

TEST_CASE("F83 a loop of scatters: dependent ones carried, others by their rows") {
  const Fixture f;
  for (const bool in_two : {false, true}) {
    const Tensor x = f.of({0, 0, 0}), one = f.of({1});
    const Tensor i = f.indices({1});
    const auto body = [&](std::int64_t) { scatter_add(x, i, one, Duplicates::sum); };
    CHECK_THROWS_WITH(parallel_for(*f.device, 4, {}, body),
                      Contains("iterations 0 and 1") && Contains("scatter_in_order_f32"));
    CHECK(x.to_vector() == Values{0, 0, 0});
    Loop loop(*f.device, 1000, {.carried = true}, body);
    loop.run();
    if (in_two) loop.run();
    CHECK(x.to_vector() == Values{0, in_two ? 2000. : 1000., 0});
  }
  const Tensor table = Tensor::zeros(Shape{100, 3}, DType::f32, *f.device);
  const Tensor v = Tensor::from({1, 2, 3}, Shape{1, 3}, DType::f32, *f.device),
               zero = f.indices({0});
  parallel_for(*f.device, 100, {}, [&](std::int64_t i) {
    const Tensor twice = mul(v, v);  // of the iteration
    scatter_add(table.rows(i, 1), zero, twice, Duplicates::sum);
  });
  Values want;
  for (int k = 0; k < 100; ++k) want.insert(want.end(), {1, 4, 9});
  CHECK(table.to_vector() == want);
}

TEST_CASE("a tensor that one iteration makes and another one uses is a dependence") {
  const Fixture f;
  const Tensor v = f.of({1, -2}), out = Tensor::zeros(Shape{8, 2}, DType::f32, *f.device);
  for (const int cap : {1, 2}) {
    std::vector<Tensor> made(8);
    const auto body = [&](std::int64_t i) {
      made[static_cast<std::size_t>(i)] = relu(v);
      if (i == 6) relu(made[4]);
    };
    CHECK_THROWS_WITH(parallel_for(*f.device, 8, {.parallel_iterations = cap}, body),
                      Contains("iterations 4 and 6") && Contains("that iteration 4 made"));
  }
  std::vector<Tensor> kept(8);
  parallel_for(*f.device, 8, {.parallel_iterations = 2},
               [&](std::int64_t i) { kept[static_cast<std::size_t>(i)] = mul(relu(v), v); });
  for (const Tensor& t : kept) CHECK(t.to_vector() == Values{1, 0});
}
