// SPDX-License-Identifier: MIT
// A few updates of a small gpt, on whatever devices a context has.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "belfry/core/document.h"
#include "belfry/core/registry.h"
#include "belfry/data/memory.h"
#include "belfry/tests/losses.h"
#include "belfry/towers/group.h"
#include "belfry/towers/model.h"

namespace belfry::sim {

struct GptRun {
  std::vector<double> losses;
  std::string hash, error;
  bool operator==(const GptRun&) const = default;
};

inline std::shared_ptr<ModelFactory> gpt_factory(const std::string& keys) {
  const std::shared_ptr<ModelFactory> model =
      builtin().table<ModelEntry>().at("gpt", "model").make();
  Document document = Document::from_text("[model]\n" + keys, "test.toml");
  Schema schema;
  model->declare(schema);
  document.bind("model", schema);
  document.finish();
  return model;
}

// Rows of 6 tokens of 11; with `wrong`, one of them is 99.
inline std::shared_ptr<const Dataset> gpt_rows(bool wrong) {
  std::vector<std::int32_t> tokens, labels;
  for (std::int32_t i = 0; i < 10 * 6; ++i) {
    tokens.push_back(i * i % 11);
    labels.push_back((i + 1) * (i + 1) % 11);
  }
  if (wrong) tokens[13] = 99;
  LabelOptions all;
  all.classes = 11;
  return memory_dataset(
      {{"tokens", Shape{6}, std::move(tokens)}, {"label", Shape{6}, std::move(labels)}}, all);
}

// 3 updates of 10 rows with adamw, clipping and dropout; errors end in `error`.
inline GptRun run_gpt(ContextOptions options, const GroupOptions& group_options, bool wrong = false,
                      bool strict = false) {
  GptRun out;
  options.seed = 3;
  try {
    Context context(options);
    const auto model = gpt_factory("layers = 2\nwidth = 12\nheads = 2\ndropout = 0.1\n");
    Optimizer optimizer = adamw({.lr = 1e-2}).clip_global_norm(1.0);
    if (strict) optimizer.strict(4);
    Loader loader(context, gpt_rows(wrong), {.batch = 10, .epochs = 3});
    TowerGroupBase group(
        context, optimizer, [model] { return model->build(Shape{6}, 11); }, group_options);
    test::step_all(group, loader, "tokens", out.losses);
    out.hash = group.parameter_hash();
  } catch (const Error& e) {
    out.error = e.what();
  }
  return out;
}

}  // namespace belfry::sim
