// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/module.h"
#include "belfry/core/registry.h"
#include "belfry/core/schema.h"
#include "belfry/data/dataset.h"

namespace belfry {

class Document;

// A classifier the command can train: images in, one logit a class out.
class Classifier : public Module {
 public:
  virtual Tensor forward(const Tensor& image) = 0;
};

// The [model] table of one kind of model; `build` may be called once a tower. The shape is one
// row's image, e.g. [28, 28, 1].
class ModelFactory {
 public:
  virtual ~ModelFactory() = default;
  virtual void declare(Schema& schema) = 0;
  // Reads what a schema cannot say, after declare()'s keys; faults go to the document.
  virtual void read(Document&, const Registry&) {}
  virtual std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const = 0;
};

struct ModelEntry {
  std::function<std::unique_ptr<ModelFactory>()> make;
  std::string help;
};

// Makes a user's network a Classifier: a Module with `Tensor forward(const Tensor&)` and either no
// constructor arguments or (const Shape& image, std::int64_t classes). Names stay the network's
// own.
template <class Net>
class NetClassifier : public Classifier {
 public:
  template <class... Args>
  explicit NetClassifier(const Args&... args) : net_(args...) {
    adopt(net_);
  }
  Tensor forward(const Tensor& image) override { return net_.forward(image); }

 private:
  Net net_;
};

template <class Net>
class NetFactory : public ModelFactory {
 public:
  void declare(Schema&) override {}
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    if constexpr (std::is_constructible_v<Net, const Shape&, std::int64_t>)
      return std::make_unique<NetClassifier<Net>>(image, classes);
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
