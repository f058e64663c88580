// SPDX-License-Identifier: MIT
// oneDNN primitives and layers: none is reference code, each is built once.
#include <cmath>

#include "belfry/autodiff/nn/nn.h"
#include "belfry/autodiff/op.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/device/cpu/onednn_internal.h"
#include "belfry/ops.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

struct Mlp : Module {
  Linear a{*this, "a", 784, 256, Activation::relu}, b{*this, "b", 256, 128, Activation::relu},
      c{*this, "c", 128, 10};
  Tensor forward(const Tensor& x) { return c(b(a(x))); }
};

struct Lenet : Module {
  Conv2d conv1{*this, "conv1", 1, 6, 5, {.padding = 2}, Activation::relu};
  Conv2d conv2{*this, "conv2", 6, 16, 5, {}, Activation::relu};
  MaxPool2d pool{};
  Linear a{*this, "a", 400, 120, Activation::relu}, b{*this, "b", 120, 84, Activation::relu},
      c{*this, "c", 84, 10};
  Tensor forward(const Tensor& x) { return c(b(a(flatten(pool(conv2(pool(conv1(x)))))))); }
};

void bind(Module& model, Device& device) {
  for (Variable* v : model.variables()) {
    Tensor memory = Tensor::empty(v->shape(), DType::f32, device);
    initial_values(v->name(), v->init(), 1, memory.size(), memory.data<float>());
    v->bind(memory, nullptr);
  }
}

template <class Model>
double step(Model& model, Device& device, const Tensor& x) {
  Tape tape;
  Scope scope({.tape = &tape, .training = true});
  std::vector<double> labels;
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) labels.push_back(static_cast<double>(i % 10));
  const Tensor y = Tensor::from(labels, {x.shape()[0]}, DType::i32, device);
  const Loss loss = cross_entropy(model.forward(x), y);
  tape.backward(loss.mean);
  for (Variable* v : model.variables()) REQUIRE(tape.grad(v->tensor()).shape() == v->shape());
  return loss.mean.item();
}

template <class Model>
void check_primitives(const Shape& image, std::size_t least) {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  Model model;
  bind(model, *device);
  const Tensor x = Tensor::from(sample_values(image.size()), image, DType::f32, *device);
  const double loss = step(model, *device, x);
  REQUIRE(loss == Approx(std::log(10.0)).margin(0.3));  // untrained: uniform over ten classes
  auto& onednn = device->slot<OneDnn>();
  REQUIRE(onednn.misses() >= least);
  for (const std::string& line : onednn.implementations()) {
    INFO(line);
    REQUIRE(line.find(" ref") == std::string::npos);
    REQUIRE(line.find(" none") == std::string::npos);
  }
  const std::size_t misses = onednn.misses();
  const ArenaStats before = device->arena().stats();
  REQUIRE(step(model, *device, x) == loss);
  REQUIRE(onednn.misses() == misses);
  REQUIRE(device->arena().stats().system_requests == before.system_requests);
}

}  // namespace

TEST_CASE("mlp runs on optimized primitives, built once", "[ops]") {
  check_primitives<Mlp>({64, 784}, 5);
}

TEST_CASE("lenet runs on optimized primitives, built once", "[ops]") {
  check_primitives<Lenet>({64, 28, 28, 1}, 8);  // conv1 and conv2's data are our own
}

TEST_CASE("empty batches build no primitive", "[ops]") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  Lenet model;
  bind(model, *device);
  REQUIRE(model.forward(Tensor::zeros({0, 28, 28, 1}, DType::f32, *device)).shape() ==
          Shape{0, 10});
  REQUIRE(device->slot<OneDnn>().misses() == 0);
}

TEST_CASE("layers start as PyTorch's do and name their variables", "[ops]") {
  Lenet model;
  const std::vector<Variable*> v = model.variables();
  REQUIRE(v.size() == 10);
  REQUIRE(v[0]->name() == "conv1.weight");
  REQUIRE(v[0]->shape() == Shape{6, 5, 5, 1});
  REQUIRE(v[0]->init().a == Approx(1.0 / 5.0));
  REQUIRE(v[3]->name() == "conv2.bias");
  REQUIRE(v[3]->init().a == Approx(1.0 / std::sqrt(150.0)));
  REQUIRE(v[4]->shape() == Shape{120, 400});
  REQUIRE(v[5]->init().a == Approx(0.05));
  Module refused, root;
  REQUIRE_THROWS_AS(Linear(refused, "a", 0, 5), ConfigError);
  REQUIRE_THROWS_AS(Dropout(refused, "d", 1.5), ConfigError);
  Linear plain(root, "plain", 3, 4, Activation::none, false);
  REQUIRE(root.variables().size() == 1);
}

TEST_CASE("a dropout layer's mask depends on its path", "[ops]") {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  Module root;
  Dropout a(root, "a", 0.5), b(root, "b", 0.5);
  const Tensor x = Tensor::from(std::vector<double>(64, 1.0), {8, 8}, DType::f32, *device);
  Scope scope({.training = true, .seed = 3, .update = 1, .rows = 8});
  REQUIRE(a(x).to_vector() != b(x).to_vector());
}

}  // namespace belfry
