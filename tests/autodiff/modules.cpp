// SPDX-License-Identifier: MIT
// Models and ops put together wrongly.
#include <memory>
#include <optional>

#include "belfry/autodiff/custom_op.h"
#include "belfry/autodiff/device_scope.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/elementwise/relu.h"
#include "belfry/autodiff/ops/reduce/sum.h"
#include "belfry/autodiff/state.h"
#include "belfry/device/context.h"
#include "belfry/tests/catch.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

struct Pieces : Module {
  using Module::Module;
  std::optional<Linear> layer;
  std::optional<Variable> variable;
  std::optional<ModuleState> state;
};

struct WithLocal : Module {
  WithLocal() { const Linear local(*this, "local", 2, 2); }
  Linear kept{*this, "kept", 2, 2};
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  }
  return "no error";
}

// Backward of y = op(x) with `backward`, x tracked or not.
std::string backward_message(const CustomBackward& backward, bool second = false) {
  Context context({.towers = "cpu:1"});
  const auto on = device_scope(context.device(0));
  Tape tape;
  const Scope scope({.tape = &tape});
  const Tensor x = tape.leaf(Tensor::from({1, 2}, {2}, DType::f32));
  std::vector<Tensor> inputs{x};
  if (second) inputs.push_back(Tensor::zeros({2}, DType::f32));
  const Tensor y = custom_op(
      "mine", inputs, [](std::span<const Tensor> in) { return relu(in[0]); }, backward);
  return message([&] { tape.backward(sum(y)); });
}

}  // namespace

TEST_CASE("A part that is destroyed before its module is an error that names it") {
  CHECK_THAT(message([] { WithLocal().variables(); }),
             Contains("ConfigError: the model lost a part") && Contains("'local'") &&
                 Contains("keep it as a member"));
  CHECK_THAT(message([] { WithLocal().states(); }), Contains("'local' was destroyed"));
  struct Root : Module {
    Pieces part{*this, "part"};
  } root;
  root.part.layer.emplace(root.part, "layer", 2, 3);
  root.part.variable.emplace(root.part, "v", Shape{2}, Init::zeros());
  root.part.state.emplace(root.part, "s", Shape{2}, StateKind::mean);
  CHECK(root.variables().size() == 3);
  CHECK(root.states().size() == 1);
  const auto lost = [&] { root.variables(); };
  SECTION("a layer") {
    root.part.layer.reset();
    CHECK_THAT(message(lost), Contains("module 'part' lost a part") && Contains("'layer'"));
  }
  SECTION("a variable") {
    root.part.variable.reset();
    CHECK_THAT(message(lost), Contains("module 'part' lost a part") && Contains("'v'"));
  }
  SECTION("a state") {
    root.part.state.reset();
    CHECK_THAT(message(lost), Contains("module 'part' lost a part") && Contains("'s'"));
  }
}

TEST_CASE("A part may be destroyed after its module") {
  auto root = std::make_unique<Pieces>();
  auto layer = std::make_unique<Linear>(*root, "layer", 2, 3);
  auto state = std::make_unique<ModuleState>(*root, "s", Shape{2}, StateKind::mean);
  root.reset();
  CHECK(layer->variables().size() == 2);
  CHECK(state->name() == "s");
  layer.reset();
  state.reset();
}

TEST_CASE("An item that a module list does not have is a ConfigError") {
  struct Net : Module {
    ModuleList<Linear> layers{*this, "layers"};
  } net;
  net.layers.add(2, 2);
  CHECK(net.layers[0].path() == "layers.0");
  CHECK_THAT(message([&] { net.layers[1]; }),
             Contains("ConfigError: item of module list 'layers': found 1, expected below its "
                      "size, 1"));
}

TEST_CASE("A custom op without functions, and a backward of inputs that are not there") {
  CHECK_THAT(message([] { custom_op("mine", {}, {}, {}); }),
             Contains("GradientError: mine: forward of custom_op(): found an empty function"));
  CHECK_THAT(backward_message({}),
             Contains("GradientError: mine: backward of custom_op(): found an empty function") &&
                 Contains("detached"));
  using In = std::span<const Tensor>;
  for (const int input : {1, -1}) {
    CAPTURE(input);
    const auto expected = Contains(
        "GradientError: mine: backward names an input that the op does "
        "not have: found " +
        std::to_string(input) + ", expected below 1");
    CHECK_THAT(backward_message([=](Backward& b, In, const Tensor&) { b.into(input); }), expected);
    CHECK_THAT(backward_message([=](Backward& b, In, const Tensor&) { b.into_in_place(input); }),
               expected);
    CHECK_THAT(backward_message([=](Backward& b, In, const Tensor&) { b.give(input, b.grad()); }),
               expected);
    CHECK_THAT(backward_message([=](Backward& b, In, const Tensor&) { b.wants(input); }), expected);
  }
  CHECK_THAT(backward_message([](Backward& b, In, const Tensor&) { b.into_in_place(1); }, true),
             Contains("backward wrote an input it does not differentiate: found 1"));
}
