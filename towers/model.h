// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/module.h"
#include "belfry/autodiff/nn/key_values.h"
#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/data/dataset.h"

namespace belfry {

class Document;

// A classifier the command can train: a batch of the data's input field in, e.g. images, and one
// logit a class out for each label: [rows, classes], or [rows, positions, classes] for a model of
// token sequences.
class Classifier : public Module {
 public:
  virtual Tensor forward(const Tensor& input) = 0;
  // The logits of tokens that go on where `past` ends, and are added to it: all first tokens of a
  // row, then one at a time, so that generation costs one position a token. None where a model
  // cannot, as most: forward() then takes the whole row.
  virtual std::optional<Tensor> continued(const Tensor& /*tokens*/,
                                          std::vector<KeyValues>& /*past*/) {
    return std::nullopt;
  }
};

// The field of a data set's rows that a model reads.
struct ModelInput {
  std::string field = "image";
  DType dtype = DType::f32;
};

// The [model] table of one kind of model; `build` may be called once a tower. The shape is that of
// the input field in one row, e.g. [28, 28, 1].
class ModelFactory {
 public:
  virtual ~ModelFactory() = default;
  virtual void declare(Schema& schema) = 0;
  virtual ModelInput input() const { return {}; }
  // Reads what a schema cannot say, after declare()'s keys; faults go to the document.
  virtual void read(Document&, const Registry&) {}
  virtual std::unique_ptr<Classifier> build(const Shape& row, std::int64_t classes) const = 0;
  // The fewest rows of a training pass, as far as it is known: LayerFactory::rows_needed().
  virtual std::int64_t rows_needed(const Shape& /*row*/, std::int64_t /*classes*/) const {
    return 1;
  }
  // The keys of [model] that make it smaller, for advice: "model.hidden"; "" for none.
  virtual std::string size_keys() const { return ""; }
};

struct ModelEntry {
  std::function<std::unique_ptr<ModelFactory>()> make;
  std::string help;
};

// Makes a user's network a Classifier: a Module with `Tensor forward(const Tensor&)` and either no
// constructor arguments or (const Shape& row, std::int64_t classes). Names stay the network's own.
// One that reads another field than "image" says so: static ModelInput input().
template <class Net>
class NetClassifier : public Classifier {
 public:
  template <class... Args>
  explicit NetClassifier(const Args&... args) : net_(args...) {
    adopt(net_);
  }
  Tensor forward(const Tensor& input) override { return net_.forward(input); }

 private:
  Net net_;
};

template <class Net>
class NetFactory : public ModelFactory {
 public:
  void declare(Schema&) override {}
  ModelInput input() const override {
    if constexpr (requires { Net::input(); })
      return Net::input();
    else
      return {};
  }
  std::unique_ptr<Classifier> build(const Shape& row, std::int64_t classes) const override {
    if constexpr (std::is_constructible_v<Net, const Shape&, std::int64_t>)
      return std::make_unique<NetClassifier<Net>>(row, classes);
    else
      return std::make_unique<NetClassifier<Net>>();
  }
};

// Lets configs say [model] name = "<name>".
template <class Net>
void register_model(Registry& registry, const std::string& name, const std::string& help = "") {
  registry.table<ModelEntry>().add(name,
                                   {[] { return std::make_unique<NetFactory<Net>>(); }, help});
}

template <class Net>
void Registry::model(const std::string& name) {
  register_model<Net>(*this, name);
}

}  // namespace belfry
