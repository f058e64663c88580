// SPDX-License-Identifier: MIT
// What the contract of ops (tests/contract/ops.cpp) does not see: weights of losses, NaN, masks,
// primitives, user ops.
#include "belfry/ops.h"

#include <cmath>
#include <limits>

#include "belfry/autodiff/custom_op.h"
#include "belfry/autodiff/op.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Fixture {
  std::unique_ptr<Device> owned = make_cpu_device(0, 1, Executor::in_place);
  Device& device = *owned;
  Tensor f32(const std::vector<double>& v, const Shape& s) {
    return Tensor::from(v, s, DType::f32, device);
  }
  Tensor labels(const std::vector<double>& v) {
    return Tensor::from(v, {static_cast<std::int64_t>(v.size())}, DType::i32, device);
  }
  Tensor random(const Shape& s, std::uint64_t seed = 1) {
    return f32(sample_values(s.size(), 1.0, seed), s);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "cross_entropy weighs by the labels that count", "[ops]") {
  const Tensor logits = f32({2, 0, 0, 0, 1, 0, kNan, kNan, kNan, 0, 0, 3}, {4, 3});
  const Loss loss = cross_entropy(logits, labels({0, 1, -100, 2}), -100);
  REQUIRE(loss.weight.item() == 3.0);
  const double expected = (std::log(std::exp(2.0) + 2) - 2 + std::log(std::exp(1.0) + 2) - 1 +
                           std::log(std::exp(3.0) + 2) - 3) /
                          3;
  REQUIRE(loss.mean.item() == Approx(expected).margin(1e-6));
}

TEST_CASE_METHOD(Fixture,
                 "cross_entropy with every label ignored is 0 with weight 0 and gradient 0",
                 "[ops]") {
  Tape tape;
  Scope scope({.tape = &tape});
  const Tensor logits = tape.leaf(f32({kNan, 1, 2, 3}, {2, 2}));
  const Loss loss = cross_entropy(logits, labels({-1, -1}), -1);
  tape.backward(loss.mean);
  REQUIRE(loss.mean.item() == 0.0);
  REQUIRE(loss.weight.item() == 0.0);
  REQUIRE(tape.grad(logits).to_vector() == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE_METHOD(Fixture, "NaN and overflowing logits reach the loss", "[ops]") {
  REQUIRE(
      std::isnan(cross_entropy(f32({1, kNan, 2, 0, 0, 0}, {2, 3}), labels({0, 1})).mean.item()));
  const double inf = std::numeric_limits<double>::infinity();
  REQUIRE(std::isnan(cross_entropy(f32({1, inf}, {1, 2}), labels({0})).mean.item()));
  REQUIRE(cross_entropy(f32({0, -1e30}, {1, 2}), labels({0})).mean.item() == 0.0);
}

TEST_CASE_METHOD(Fixture, "small losses of large logits keep their digits", "[ops]") {
  // log(1 + e^-9) beside a label's logit of 3000, where f32 counts in steps of 2.4e-4.
  const Tensor logits = f32({2991, 3000}, {1, 2});
  REQUIRE(cross_entropy(logits, labels({1})).mean.item() ==
          Approx(std::log1p(std::exp(-9.0))).epsilon(1e-3));
  REQUIRE(cross_entropy(logits, labels({0})).mean.item() ==
          Approx(9 + std::log1p(std::exp(-9.0))).epsilon(1e-6));
}

TEST_CASE_METHOD(Fixture, "batch norm writes its input's gradient over that of its result",
                 "[ops]") {
  const Tensor one = f32({1, 1}, {2}), zero = f32({0, 0}, {2});
  Tape tape;
  Scope scope({.tape = &tape});
  const Tensor x = tape.leaf(random({6, 2}));
  const void* of_result = nullptr;
  const auto forward = [](std::span<const Tensor> in) { return sum(in[0]); };
  const auto backward = [&of_result](Backward& b, std::span<const Tensor>, const Tensor&) {
    const Tensor g = b.into(0);
    g.device().main().fill(g.raw(), 0, g.bytes());
    of_result = g.raw();
  };
  const Tensor y = batch_norm(x, one, zero, {}, {.relu = true});
  tape.backward(custom_op("zeros", {y}, forward, backward));
  REQUIRE(of_result != nullptr);
  REQUIRE(tape.grad(x).raw() == of_result);
}

TEST_CASE_METHOD(Fixture, "a label out of range is a DataError with its row", "[ops]") {
  const Tensor logits = random({3, 4});
  for (const double bad : {4.0, -1.0}) {
    std::string message;
    try {
      cross_entropy(logits, labels({0, bad, 1}));
    } catch (const DataError& e) {
      message = e.what();
    }
    INFO(message);
    REQUIRE(message.find("row 1") != std::string::npos);
    REQUIRE(message.find(std::to_string(static_cast<int>(bad))) != std::string::npos);
    REQUIRE(message.find("[0, 4)") != std::string::npos);
  }
  REQUIRE_NOTHROW(correct(logits, labels({0, 9, 1}), 9));
  REQUIRE_THROWS_AS(correct(logits, labels({0, 8, 1}), 9), DataError);
}

TEST_CASE_METHOD(Fixture, "mse weighs by rows and correct by labels", "[ops]") {
  REQUIRE(mse(random({5, 3}), random({5, 3}, 2)).weight.item() == 5.0);
  REQUIRE(mse(random({0, 3}), random({0, 3})).weight.item() == 0.0);
  REQUIRE(mse(random({}), random({})).weight.item() == 1.0);
  const Metric m = correct(f32({0, 1, 5, 1, kNan, 1, 0, 1}, {4, 2}), labels({1, 0, 1, 7}), 7);
  REQUIRE(m.sum.item() == 2.0);  // the NaN row is wrong, the last is ignored
  REQUIRE(m.weight.item() == 3.0);
}

TEST_CASE_METHOD(Fixture, "ReLU does not hide NaN, fused or not", "[ops]") {
  const Tensor x = f32({kNan, 1, 1, 1}, {2, 2}), w = f32({1, 1, -1, -1}, {2, 2});
  const std::vector<double> y = linear(x, w, {}, Activation::relu).to_vector();
  REQUIRE(std::isnan(y[0]));
  REQUIRE(std::isnan(y[1]));
  REQUIRE(y[2] == 2.0);
  REQUIRE(y[3] == 0.0);
  REQUIRE(std::isnan(relu(x).to_vector()[0]));
  const Tensor image = f32({kNan, 1}, {2, 1, 1, 1}), tap = f32({1}, {1, 1, 1, 1});
  REQUIRE(std::isnan(conv2d(image, tap, {}, {}, Activation::relu).to_vector()[0]));
  REQUIRE(std::isnan(max_pool2d(f32({1, kNan, 3, 2}, {1, 2, 2, 1})).item()));
}

TEST_CASE_METHOD(Fixture, "gradients of no rows are zero", "[ops]") {
  Tape tape;
  Scope scope({.tape = &tape});
  const Tensor w = tape.leaf(random({3, 4})), b = tape.leaf(random({3}));
  const Tensor k = tape.leaf(random({2, 3, 3, 1}));
  const Tensor hidden = linear(Tensor::zeros({0, 4}, DType::f32, device), w, b, Activation::relu);
  const Tensor maps = conv2d(Tensor::zeros({0, 5, 5, 1}, DType::f32, device), k);
  tape.backward(add(sum(hidden), sum(maps)));
  REQUIRE(tape.grad(w).to_vector() == std::vector<double>(12, 0.0));
  REQUIRE(tape.grad(b).to_vector() == std::vector<double>(3, 0.0));
  REQUIRE(tape.grad(k).to_vector() == std::vector<double>(18, 0.0));
}

TEST_CASE_METHOD(Fixture, "a linear layer writes its gradients straight into the sinks", "[ops]") {
  std::vector<float> memory(6 + 3, 7.0f);
  GradSink weight_sink{memory.data(), false, {}}, bias_sink{memory.data() + 6, false, {}};
  Tape tape;
  Scope scope({.tape = &tape});
  const Tensor w = tape.leaf(f32({1, 2, 3, 4, 5, 6}, {3, 2}), &weight_sink);
  const Tensor b = tape.leaf(f32({0, 0, 0}, {3}), &bias_sink);
  tape.backward(sum(linear(f32({1, 10, 2, 20}, {2, 2}), w, b)));
  REQUIRE(memory == std::vector<float>{3, 30, 3, 30, 3, 30, 2, 2, 2});
}

TEST_CASE_METHOD(Fixture, "bias gradients of many rows keep f32 accuracy", "[ops]") {
  const std::int64_t rows = 50176;  // 64 maps of 28 x 28
  for (const std::int64_t columns : {1, 6, 16, 33, 130}) {
    Tape tape;
    Scope scope({.tape = &tape});
    const Tensor b = tape.leaf(Tensor::zeros({columns}, DType::f32, device));
    const Tensor g =
        f32(std::vector<double>(static_cast<std::size_t>(rows * columns), 0.1), {rows, columns});
    tape.backward(sum(mul(add(Tensor::zeros({rows, columns}, DType::f32, device), b), g)));
    const double expected = static_cast<double>(rows) * static_cast<double>(0.1f);
    for (const double v : tape.grad(b).to_vector()) REQUIRE(v == Approx(expected).epsilon(3e-6));
  }
}

TEST_CASE_METHOD(Fixture, "dropout masks depend on the global row and not on how rows are cut",
                 "[ops]") {
  const std::uint64_t path = name_hash("block.dropout");
  const Tensor x = random({10, 33});
  const auto pass = [&](std::int64_t first, std::int64_t count, std::int64_t update) {
    Scope scope({.training = true, .seed = 7, .update = update, .first_row = first, .rows = count});
    return dropout(x.rows(first, count), 0.4, path).to_vector();
  };
  const std::vector<double> whole = pass(0, 10, 3);
  std::vector<double> parts = pass(0, 4, 3);
  const std::vector<double> rest = pass(4, 6, 3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  REQUIRE(parts == whole);
  REQUIRE(pass(0, 10, 4) != whole);
}

TEST_CASE_METHOD(Fixture, "dropout keeps the expected share, draws anew, and acts only in training",
                 "[ops]") {
  const Tensor ones = f32(std::vector<double>(40000, 1.0), {200, 200});
  Scope scope({.training = true, .seed = 7, .update = 1});
  const std::vector<double> first = dropout(ones, 0.25, 1).to_vector(),
                            second = dropout(ones, 0.25, 1).to_vector();
  REQUIRE(first != second);
  double kept = 0;
  for (const double v : first) {
    REQUIRE((v == 0.0 || v == Approx(4.0 / 3).margin(1e-6)));
    kept += v > 0 ? 1 : 0;
  }
  REQUIRE(kept / 40000 == Approx(0.75).margin(0.01));  // 4.6 standard deviations
  REQUIRE(dropout(ones, 0.25, 2).to_vector() != first);
  const Scope evaluation({.training = false});
  REQUIRE(dropout(ones, 0.25, 1).raw() == ones.raw());
  REQUIRE_THROWS_AS(dropout(ones, 1.0, 1), ConfigError);
  REQUIRE_THROWS_AS(dropout(ones, kNan, 1), ConfigError);
}

TEST_CASE_METHOD(Fixture, "a user's op has forward and backward of its own", "[ops]") {
  Tape tape;
  Scope scope({.tape = &tape});
  const auto cube = [](const Tensor& x) {
    return custom_op(
        "cube", {x}, [](std::span<const Tensor> in) { return mul(in[0], mul(in[0], in[0])); },
        [](Backward& b, std::span<const Tensor> in, const Tensor& y) {
          REQUIRE(y.tape() == nullptr);
          const Tensor three = Tensor::from({3}, {}, DType::f32, y.device());
          b.give(0, mul(mul(b.grad(), three), mul(in[0], in[0])));
        });
  };
  const Tensor x = tape.leaf(f32({1, 2, -3}, {3}));
  const Tensor y = cube(x);
  REQUIRE(tape.nodes().size() == 1);
  tape.backward(sum(y));
  REQUIRE(y.to_vector() == std::vector<double>{1, 8, -27});
  REQUIRE(tape.grad(x).to_vector() == std::vector<double>{3, 12, 27});
  REQUIRE(cube(f32({2}, {1})).tape() == nullptr);
  REQUIRE_THROWS_AS(custom_op("nothing", {x}, [](std::span<const Tensor>) { return Tensor(); }, {}),
                    GradientError);
}

TEST_CASE("activations by name", "[ops]") {
  REQUIRE(parse_activation("gelu") == Activation::gelu);
  REQUIRE(name_of(Activation::sigmoid) == "sigmoid");
  std::string message;
  try {
    parse_activation("rleu");
  } catch (const ConfigError& e) {
    message = e.what();
  }
  REQUIRE(message.find("relu") != std::string::npos);
}

}  // namespace belfry
