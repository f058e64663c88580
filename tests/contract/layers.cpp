// SPDX-License-Identifier: MIT
// What every layer that a config can list promises, whoever wrote it.
#include "belfry/autodiff/layer.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/scope.h"
#include "belfry/core/error.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/ops.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

struct Root : Module {};

void bind(const Module& model, Device& device) {
  for (Variable* v : model.variables()) {
    Tensor memory = Tensor::empty(v->shape(), DType::f32, device);
    initial_values(v->name(), v->init(), 1, memory.size(), memory.data<float>());
    v->bind(memory, nullptr);
  }
}

Shape with_rows(const Shape& row, std::int64_t rows) {
  std::vector<std::int64_t> extents = row.extents();
  extents.insert(extents.begin(), rows);
  return Shape(extents);
}

}  // namespace

TEST_CASE("layers: what they say of shapes is what they give, with gradients for their variables",
          "[contract][layers]") {
  const Registry registry = builtin();
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  REQUIRE(registry.table<LayerEntry>().names().size() >= 10);
  for (const auto& [name, entry] : registry.table<LayerEntry>()) {
    INFO("layer " << name);
    CHECK(entry.help.size() > 5);
    int taken = 0;
    for (const Shape& row : {Shape{12}, Shape{5, 6}, Shape{9, 7, 3}}) {
      INFO(row.text());
      const auto factory = entry.make();
      Schema schema;
      factory->declare(schema);
      CHECK_NOTHROW(schema.validate("layer"));
      for (const Key& key : schema.keys()) CHECK(!key.options.help.empty());
      const LayerInput in{row, 4};
      Shape out;
      try {
        out = factory->shape_after(in);
      } catch (const ConfigError& e) {
        CHECK(e.text().found == row.text());
        CHECK(!e.text().expected.empty());
        CHECK(e.text().file.empty());
        continue;
      }
      ++taken;
      Root root;
      const auto layer = factory->build(root, "part", in);
      bind(root, *device);
      for (const Variable* v : root.variables()) CHECK(v->name().rfind("part.", 0) == 0);
      for (const std::int64_t rows : {2, 3}) {  // what sees other rows needs two
        Tape tape;
        Scope scope({.tape = &tape, .training = true, .rows = rows});
        const Shape whole = with_rows(row, rows);
        const Tensor x =
            tape.leaf(Tensor::from(sample_values(whole.size()), whole, DType::f32, *device));
        const Tensor y = layer->forward(x);
        CHECK(y.shape() == with_rows(out, rows));
        tape.backward(sum(y));
        for (const Variable* v : root.variables())
          CHECK(tape.grad(v->tensor()).shape() == v->shape());
        CHECK(tape.grad(x).shape() == whole);
      }
    }
    CHECK(taken >= 1);
  }
}

}  // namespace belfry
