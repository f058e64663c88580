// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "belfry/autodiff/module.h"
#include "belfry/core/registry.h"
#include "belfry/core/schema.h"

namespace belfry {

// One layer of a list of layers. Takes and gives [rows, ...].
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensor forward(const Tensor& x) = 0;
};

// A module as a layer: owns an M, made from the arguments.
template <class M>
class LayerOf : public Layer {
 public:
  template <class... Args>
  explicit LayerOf(Args&&... args) : module_(std::forward<Args>(args)...) {}
  Tensor forward(const Tensor& x) override { return module_(x); }

 private:
  M module_;
};

// What a layer of a list is told about its place.
struct LayerInput {
  Shape row;                 // of one row of its input
  std::int64_t classes = 0;  // of the data
};

// A kind of layer that a config can name, with the keys of its table. Knows shapes before there is
// any memory. Immutable once configured; build() may be called once a tower.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;
  virtual void declare(Schema& schema) = 0;
  // The shape of one row of its output. Throws ConfigError with found and expected, without place,
  // for an input that it cannot take.
  virtual Shape shape_after(const LayerInput& in) const = 0;
  // The fewest rows that a training pass needs to have a value to compare with: 2 where it
  // normalises a single value a row.
  virtual std::int64_t rows_needed(const LayerInput&) const { return 1; }
  // Its variables become those of a part `name` of `parent`; `in` has passed shape_after().
  virtual std::unique_ptr<Layer> build(Module& parent, const std::string& name,
                                       const LayerInput& in) const = 0;
};

struct LayerEntry {
  std::function<std::unique_ptr<LayerFactory>()> make;
  std::string help;
};

// A kind of layer without keys and variables that keeps shapes: relu.
LayerEntry pointwise_layer(Tensor (*f)(const Tensor&), std::string help);

// Throws shape_after()'s ConfigError.
[[noreturn]] void throw_layer_input(const std::string& what, const Shape& found,
                                    const std::string& expected, const std::string& fix = "");

}  // namespace belfry
