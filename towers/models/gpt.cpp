// SPDX-License-Identifier: MIT
#include <cmath>

#include "belfry/autodiff/nn/block.h"
#include "belfry/autodiff/nn/embedding.h"
#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/ops/matrix/linear.h"
#include "belfry/autodiff/ops/shape/reshape.h"
#include "belfry/autodiff/ops/shape/slice.h"
#include "belfry/core/key_error.h"
#include "belfry/towers/model.h"

namespace belfry {
namespace {

struct GptOptions {
  std::int64_t layers = 4, width = 128, heads = 4;
  std::int64_t context = 0, vocabulary = 0;  // 0: the data's
  double dropout = 0;
};

// GPT-2's decoder: token and position tables, pre-norm blocks, a last norm, and the token table
// again as the head. Weights start normal with deviation 0.02, those that add to the residual with
// 0.02 / sqrt(2 layers), biases at 0.
class Gpt : public Classifier {
 public:
  explicit Gpt(const GptOptions& o)
      : context_(o.context),
        tokens_(*this, "tokens", o.vocabulary, o.width, Init::normal(kStart)),
        positions_(*this, "positions", o.context, o.width, Init::normal(kStart)),
        drop_(*this, "drop", o.dropout),
        blocks_(*this, "block") {
    const Init start = Init::normal(kStart),
               out = Init::normal(kStart / std::sqrt(2.0 * static_cast<double>(o.layers)));
    for (std::int64_t i = 0; i < o.layers; ++i)
      blocks_.add(
          o.width, o.heads,
          TransformerBlock::Options{.dropout = o.dropout, .start = start, .out_start = out});
    norm_.emplace(*this, "norm", o.width);
  }
  // tokens [rows, positions] i32 to logits [rows, positions, vocabulary].
  Tensor forward(const Tensor& tokens) override { return run(tokens, nullptr); }
  std::optional<Tensor> continued(const Tensor& tokens, std::vector<KeyValues>& past) override {
    past.resize(blocks_.size());
    return run(tokens, &past);
  }

 private:
  static constexpr double kStart = 0.02;
  Tensor run(const Tensor& tokens, std::vector<KeyValues>* past) {
    const std::int64_t rows = tokens.shape()[0], length = tokens.shape()[1];
    const std::int64_t width = positions_.weight().shape()[1];
    const std::int64_t first = past == nullptr ? 0 : past->front().positions();
    const Tensor at = first == 0 && length == context_
                          ? positions_.weight().tensor()
                          : slice(positions_.weight(), 0, first, length);
    Tensor x = add(reshape(tokens_(tokens), {rows, length * width}), reshape(at, {length * width}));
    x = drop_(reshape(x, {rows, length, width}));
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      x = blocks_[i](x, past == nullptr ? nullptr : &(*past)[i]);
    return linear((*norm_)(x), tokens_.weight(), {});
  }
  std::int64_t context_;
  Embedding tokens_, positions_;
  Dropout drop_;
  ModuleList<TransformerBlock> blocks_;
  std::optional<LayerNorm> norm_;  // made after the blocks, in the order of use
};

class GptFactory : public ModelFactory {
 public:
  void declare(Schema& schema) override {
    GptOptions& o = options_;
    schema.key("layers", o.layers, {.min = 1, .max = 1000, .help = "transformer blocks"})
        .key("width", o.width, {.min = 1, .max = 1e5, .help = "of the residual stream"})
        .key("heads", o.heads,
             {.min = 1, .max = 1e4, .help = "of each attention; divide the width"})
        .key("context", o.context,
             {.min = 0, .max = 1e7, .help = "most positions of a row; 0: as the data's rows"})
        .key("vocabulary", o.vocabulary,
             {.min = 0, .max = 1e8, .help = "rows of the token table; 0: the data's classes"})
        .key(
            "dropout", o.dropout,
            {.min = 0,
             .max = 1,
             .exclusive_max = true,
             .help = "after the tables, of attention's probabilities and of what each branch adds"})
        .rule([&o] {
          return o.width % o.heads == 0 ? std::string()
                                        : "heads = " + std::to_string(o.heads) +
                                              " does not divide width = " + std::to_string(o.width);
        });
  }
  ModelInput input() const override { return {"tokens", DType::i32}; }
  std::unique_ptr<Classifier> build(const Shape& row, std::int64_t classes) const override {
    if (row.rank() != 1)
      throw ConfigError(ErrorText{.what = "model 'gpt' cannot take these rows",
                                  .found = row.text(),
                                  .expected = "[positions]"});
    GptOptions o = options_;
    o.context = at_least("context", o.context, row[0], "positions in the data's rows");
    o.vocabulary = at_least("vocabulary", o.vocabulary, classes, "classes in the data");
    return std::make_unique<Gpt>(o);
  }
  std::string size_keys() const override { return "model.width, model.layers"; }

 private:
  static std::int64_t at_least(const char* key, std::int64_t value, std::int64_t data,
                               const char* what) {
    if (value == 0) return data;
    if (value < data)
      throw KeyError(key,
                     ErrorText{.what = "model." + std::string(key) + " is too small",
                               .found = std::to_string(value),
                               .expected = "at least " + std::to_string(data) + ", the " + what,
                               .fix = "raise it, or leave it out to take the data's"});
    return value;
  }
  GptOptions options_;
};

}  // namespace

void register_model_gpt(Registry& registry) {
  registry.table<ModelEntry>().add(
      "gpt", {[] { return std::make_unique<GptFactory>(); }, "GPT-2's decoder on rows of tokens"});
}

}  // namespace belfry
