// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/autodiff/layer.h"
#include "belfry/core/document.h"
#include "belfry/core/key_error.h"
#include "belfry/core/plugin_choice.h"
#include "belfry/towers/model.h"

namespace belfry {
namespace {

// One entry of the list, with its place in the config.
struct LayerItem {
  std::string name;   // of its kind
  std::string table;  // "model.layers.3"
  std::shared_ptr<const LayerFactory> factory;
  ErrorText place;
};

// The layers one after the other, with variables layers.0.weight, layers.3.bias, ...
class LayerList : public Classifier {
 public:
  LayerList(const std::vector<LayerItem>& items, const std::vector<LayerInput>& inputs) {
    for (std::size_t i = 0; i < items.size(); ++i)
      layers_.push_back(items[i].factory->build(list_, std::to_string(i), inputs[i]));
  }
  Tensor forward(const Tensor& image) override {
    Tensor x = image;
    for (const auto& layer : layers_) x = layer->forward(x);
    return x;
  }

 private:
  struct Parts : Module {
    using Module::Module;
  };
  Parts list_{*this, "layers"};
  std::vector<std::unique_ptr<Layer>> layers_;
};

class LayersFactory : public ModelFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("input", input_,
               {.min = 1,
                .max = 2147483647,
                .help = "shape of one row, e.g. [28, 28, 1]: shapes are then checked before any "
                        "data is read; empty: the data's"});
    schema.rule([this] {
      return input_.size() < static_cast<std::size_t>(Shape::kMaxRank)
                 ? std::string()
                 : "input: at most " + std::to_string(Shape::kMaxRank - 1) + " extents";
    });
  }
  void read(Document& document, const Registry& registry) override;
  std::unique_ptr<Classifier> build(const Shape& image, std::int64_t classes) const override {
    if (!input_.empty() && Shape(input_).extents() != image.extents())
      throw KeyError("input", ErrorText{.what = "the data has not the shape that model.input says",
                                        .found = image.text(),
                                        .expected = Shape(input_).text(),
                                        .fix = "correct model.input or leave it out"});
    if (items_.empty())
      throw ConfigError(ErrorText{.what = "model 'layers' has no list of layers",
                                  .expected = "one from a config's [model] layers"});
    return std::make_unique<LayerList>(items_, inputs(image, classes));
  }
  std::int64_t rows_needed(const Shape& image, std::int64_t classes) const override {
    const std::vector<LayerInput> in = inputs(image, classes);
    std::int64_t most = 1;
    for (std::size_t i = 0; i < items_.size(); ++i)
      most = std::max(most, items_[i].factory->rows_needed(in[i]));
    return most;
  }
  std::string size_keys() const override { return "the layers' `out`"; }

 private:
  std::vector<LayerInput> inputs(const Shape& image, std::int64_t classes) const;
  void check_declared(Document& document) const;
  std::vector<std::int64_t> input_;
  std::vector<LayerItem> items_;
};

std::string title(std::size_t number, const LayerItem& item) {
  return "layer " + std::to_string(number) + " (" + item.name + ")";
}

void LayersFactory::read(Document& document, const Registry& registry) {
  const std::vector<std::string> tables = document.items("model", "layers");
  if (tables.empty())
    document.fault("model", "layers",
                   "missing: expected a list such as [\"flatten\", {name = \"linear\"}]");
  bool known = true;
  for (const std::string& table : tables) {
    const std::string name = document.peek_string(table, "name", "");
    std::shared_ptr<LayerFactory> layer =
        choose_plugin<LayerEntry>(document, registry, table, "layer", "");
    known = known && layer != nullptr;
    if (!layer) continue;
    Schema keys;
    layer->declare(keys);
    document.bind(table, keys);
    items_.push_back({name, table, layer, document.placed(table, "name", {})});
  }
  if (known && !tables.empty() && !input_.empty()) check_declared(document);
}

// What can be said of shapes before the number of classes is known.
void LayersFactory::check_declared(Document& document) const {
  LayerInput in{Shape(input_), 2};
  for (std::size_t i = 0; i < items_.size(); ++i) {
    try {
      in.row = items_[i].factory->shape_after(in);
    } catch (const ConfigError& error) {
      document.fault(items_[i].table, "name", title(i, items_[i]) + ": " + error.what());
      return;
    }
  }
}

// The input of each layer. Throws ConfigError with the place of the one that cannot take its own.
std::vector<LayerInput> LayersFactory::inputs(const Shape& image, std::int64_t classes) const {
  std::vector<LayerInput> out;
  LayerInput in{image, classes};
  for (std::size_t i = 0; i < items_.size(); ++i) {
    out.push_back(in);
    ErrorText text = items_[i].place;
    try {
      in.row = items_[i].factory->shape_after(in);
    } catch (const ConfigError& error) {
      text.what = title(i, items_[i]) + ": " + error.text().what;
      text.found = error.text().found;
      text.expected = error.text().expected;
      text.fix = error.text().fix;
      throw ConfigError(text);
    }
  }
  if (in.row.rank() == 1 && in.row[0] == classes) return out;
  ErrorText text = items_.back().place;
  text.what = title(items_.size() - 1, items_.back()) + ", the last one, does not give the classes";
  text.found = in.row.text();
  text.expected = Shape{classes}.text() + ", one value a class";
  text.fix =
      "end with {name = \"linear\"}, whose `out` is the number of classes where it is not given";
  throw ConfigError(text);
}

}  // namespace

void register_model_layers(Registry& registry) {
  registry.table<ModelEntry>().add("layers", {[] { return std::make_unique<LayersFactory>(); },
                                              "a list of layers, written in the config"});
}

}  // namespace belfry
