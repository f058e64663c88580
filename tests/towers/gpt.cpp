// SPDX-License-Identifier: MIT
// Model gpt on towers: promise 1, strict mode, start values, what its factory refuses.
#include <algorithm>
#include <cmath>
#include <map>

#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/core/document.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/towers/model.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kContext = 12, kVocabulary = 29;

std::shared_ptr<ModelFactory> factory(const std::string& keys) {
  const std::shared_ptr<ModelFactory> model =
      builtin().table<ModelEntry>().at("gpt", "model").make();
  Document document = Document::from_text("[model]\n" + keys, "test.toml");
  Schema schema;
  model->declare(schema);
  document.bind("model", schema);
  document.finish();
  return model;
}

TowerGroupBase::Factory gpt(const std::string& more = "") {
  const auto model = factory("layers = 2\nwidth = 24\nheads = 3\n" + more);
  return [model] { return model->build(Shape{kContext}, kVocabulary); };
}

Loss next_token(Module& m, const Batch& b, Step&) {
  return cross_entropy(static_cast<Classifier&>(m).forward(b["tokens"]), b["label"]);
}

// Rows of tokens of which each allows two followers.
std::shared_ptr<const Dataset> sentences(std::int64_t rows) {
  const Philox random = philox_key(3, Purpose::test);
  std::vector<std::int32_t> tokens, labels;
  std::int32_t token = 0;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(rows * kContext); ++i) {
    tokens.push_back(token);
    token = static_cast<std::int32_t>(
        (static_cast<std::uint32_t>(token) * 3 + 1 + (random(i, 0, 0, 0).v[0] & 1u)) % kVocabulary);
    labels.push_back(token);
  }
  return memory_dataset({{"tokens", Shape{kContext}, std::move(tokens)},
                         {"label", Shape{kContext}, std::move(labels)}},
                        {.classes = kVocabulary});
}

Optimizer recipe() {
  return adamw({.lr = 3e-3}).clip_global_norm(1.0).decay(0.1, {"*.bias", "*norm*"});
}

struct Run {
  Run(int towers, Optimizer optimizer, const std::string& more, std::int64_t batch = 13,
      Variables variables = Variables::shared, bool capture = false)
      : context({.towers = "cpu:" + std::to_string(towers), .seed = 5, .threads_per_tower = 1}),
        loader(context, sentences(26), {.batch = batch, .epochs = 1000}),
        group(context, std::move(optimizer), gpt(more),
              {.variables = variables, .capture = capture}) {}
  Report step() {
    Batch batch;
    REQUIRE(loader.next(batch));
    return group.step(batch, next_token);
  }
  Context context;
  Loader loader;
  TowerGroupBase group;
};

}  // namespace

TEST_CASE("gpt: gradients on N = 1, 2, 3, 4, 8 towers agree to 2e-6 of their norm along a run") {
  std::vector<std::unique_ptr<Run>> runs;
  for (const int n : {1, 2, 3, 4, 8})
    runs.push_back(std::make_unique<Run>(n, recipe(), "dropout = 0.1"));
  double worst = 0;
  for (int u = 0; u < 12; ++u) {
    std::vector<GroupArray> one;
    Batch first;
    for (std::size_t k = 0; k < runs.size(); ++k) {
      Batch batch;
      REQUIRE(runs[k]->loader.next(batch));
      if (k != 0) {
        runs[k]->group.set_arrays(runs[0]->group.arrays());
        runs[k]->group.set_clocks(runs[0]->group.clocks());
      }
      const auto g = runs[k]->group.averaged(batch, next_token);
      if (k == 0)
        one = g, first = batch;
      else
        worst = std::max(worst, distance(g, one));
    }
    runs[0]->group.step(first, next_token);
  }
  INFO("largest difference " << worst);
  CHECK(worst <= 2e-6);
}

TEST_CASE("gpt: strict mode gives the same bits on N = 1, 2, 3, 4, 8 towers") {
  const auto trained = [](int towers, Variables variables) {
    Run run(towers, recipe().strict(8), "dropout = 0.1", 13, variables);
    std::vector<double> losses;
    for (int u = 0; u < 5; ++u) losses.push_back(run.step().loss());
    return std::pair{losses, run.group.parameter_hash()};
  };
  const auto want = trained(1, Variables::shared);
  for (const int n : {2, 3, 4, 8}) {
    INFO(n << " towers");
    CHECK(trained(n, Variables::shared) == want);
    CHECK(trained(n, Variables::replicated) == want);
  }
}

TEST_CASE("gpt: recorded updates have the bits of given ones, dropout and all") {
  const auto trained = [](int towers, bool strict, bool capture) {
    Optimizer optimizer = strict ? recipe().strict(8) : recipe();
    Run run(towers, std::move(optimizer), "dropout = 0.2", 13, Variables::shared, capture);
    std::vector<double> losses;
    for (int u = 0; u < 6; ++u) losses.push_back(run.step().loss());
    return std::pair{losses, run.group.parameter_hash()};
  };
  for (const int n : {1, 2, 4})
    for (const bool strict : {false, true}) {
      INFO(n << " towers, strict " << strict);
      CHECK(trained(n, strict, true) == trained(n, strict, false));
    }
}

TEST_CASE("gpt: dropout acts in training alone, and on the attention too") {
  const auto loss = [](const std::string& more, bool training) {
    Run run(2, recipe(), more);
    Batch batch;
    REQUIRE(run.loader.next(batch));
    if (training) return run.group.step(batch, next_token).loss();
    Loader rows(run.context, sentences(26), {.batch = 13, .epochs = 1, .shuffle = false});
    return run.group.evaluate(rows, next_token).loss;
  };
  CHECK(loss("dropout = 0.3", false) == loss("", false));
  CHECK(loss("dropout = 0.3", true) != loss("", true));

  Run run(1, recipe(), "dropout = 0.3");
  std::map<std::string, std::uint32_t> draws;
  const LossFn counted = [&](Module& m, const Batch& b, Step& step) {
    const Loss out = next_token(m, b, step);
    for (const char* path : {"drop", "block.0.attention", "block.1.attention", "block.1.drop1"})
      draws[path] = Scope::current()->next_draw(name_hash(path));
    return out;
  };
  Batch batch;
  REQUIRE(run.loader.next(batch));
  run.group.step(batch, counted);
  CHECK(draws ==
        std::map<std::string, std::uint32_t>{
            {"drop", 1}, {"block.0.attention", 1}, {"block.1.attention", 1}, {"block.1.drop1", 1}});
  Loader rows(run.context, sentences(26), {.batch = 26, .epochs = 1});
  run.group.evaluate(rows, counted);
  for (const auto& [path, count] : draws) {
    INFO(path);
    CHECK(count == 0);
  }
}

TEST_CASE("gpt: one position behind kept keys and values has the logits of the whole row") {
  Run run(1, recipe(), "dropout = 0.1", 26);
  for (int u = 0; u < 40; ++u) run.step();  // to weights that differ
  using Tokens = std::vector<double>;
  const auto row = [&](const Tokens& tokens, std::size_t first) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
    return Tensor::from({begin, tokens.end()}, {1, static_cast<std::int64_t>(tokens.end() - begin)},
                        DType::i32, run.context.device(0));
  };
  const auto last = [](const Tensor& logits) {
    const std::vector<double> all = logits.to_vector();
    return std::vector<double>(all.end() - kVocabulary, all.end());
  };
  Loader one(run.context, sentences(26), {.batch = 1, .shuffle = false, .prefetch = 0});
  run.group.evaluate(one, [&](Module& m, const Batch& b, Step& step) {
    auto& model = static_cast<Classifier&>(m);
    for (const std::size_t prompt : {1u, 5u, 12u}) {
      Tokens tokens(prompt, 3);
      std::vector<KeyValues> past;
      std::size_t seen = 0;
      double largest = 0, worst = 0;
      while (tokens.size() <= static_cast<std::size_t>(kContext)) {  // greedily
        const std::vector<double> want = last(model.forward(row(tokens, 0))),
                                  got = last(model.continued(row(tokens, seen), past).value());
        seen = tokens.size();
        REQUIRE(past.size() == 2);
        REQUIRE(past[1].positions() == static_cast<std::int64_t>(seen));
        for (std::size_t i = 0; i < want.size(); ++i) {
          largest = std::max(largest, std::fabs(want[i]));
          worst = std::max(worst, std::fabs(got[i] - want[i]));
        }
        const auto likeliest = std::max_element(want.begin(), want.end()) - want.begin();
        REQUIRE(std::max_element(got.begin(), got.end()) - got.begin() == likeliest);
        tokens.push_back(static_cast<double>(likeliest));
      }
      INFO("prompt of " << prompt << ": off by " << worst << " of " << largest);
      CHECK(largest > 1);
      CHECK(worst <= 1e-5 * largest);
      CHECK_THROWS_AS(model.continued(row({3}, 0), past), GradientError);  // no more positions
      std::vector<KeyValues> two;
      model.continued(row({3, 3}, 0), two);
      CHECK_THROWS_WITH(model.continued(row({3, 3}, 0), two),
                        Contains("attention") && Contains("one position"));
    }
    return next_token(m, b, step);
  });
}

TEST_CASE("gpt learns which token follows which") {
  Run run(2, recipe(), "", 26);
  double loss = 0;
  for (int u = 0; u < 150; ++u) loss = run.step().loss();
  INFO("loss " << loss << ", that of the best guess " << std::log(2.0));
  CHECK(loss < 1.0);
}

TEST_CASE("gpt: start values are GPT-2's, and the loss is that of equal chances") {
  Run run(1, recipe(), "");
  const auto deviation = [&](const std::string& name) {
    double sum = 0;
    const std::vector<float> values = run.group.parameter(name);
    for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  CHECK(deviation("tokens.weight") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("positions.weight") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("block.1.attention.qkv.weight") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("block.0.attention.out.weight") == Approx(0.01).epsilon(0.1));
  CHECK(deviation("block.1.down.weight") == Approx(0.01).epsilon(0.1));
  CHECK(deviation("block.1.norm2.weight") == 1);
  CHECK(deviation("block.0.up.bias") == 0);
  CHECK(run.step().loss() == Approx(std::log(static_cast<double>(kVocabulary))).epsilon(0.01));
}

TEST_CASE("gpt: a tied head, and the shape of GPT-2 124M without memory for it") {
  const auto model =
      factory("layers = 12\nwidth = 768\nheads = 12\ncontext = 1024\nvocabulary = 50257\n")
          ->build(Shape{1024}, 50257);
  std::int64_t parameters = 0;
  for (const Variable* v : model->variables()) parameters += v->shape().size();
  CHECK(parameters == 124439808);  // as GPT-2's smallest
}

TEST_CASE("gpt: what does not fit the data or itself is a ConfigError") {
  CHECK_THROWS_WITH(factory("width = 10\nheads = 3\n"), Contains("heads = 3"));
  CHECK_THROWS_WITH(factory("context = 8\n")->build(Shape{12}, 29),
                    Contains("context") && Contains("at least 12"));
  CHECK_THROWS_WITH(factory("vocabulary = 20\n")->build(Shape{12}, 29),
                    Contains("vocabulary") && Contains("at least 29"));
  CHECK_THROWS_AS(factory("")->build(Shape{4, 4}, 10), ConfigError);
  CHECK(factory("")->input().field == "tokens");
}

TEST_CASE("gpt: a token outside the table is a DataError with its row") {
  Run run(2, recipe(), "");
  Batch batch;
  REQUIRE(run.loader.next(batch));
  batch["tokens"].data<std::int32_t>()[9 * kContext + 4] = 77;
  CHECK_THROWS_AS(run.group.step(batch, next_token), DataError);
  CHECK_THROWS_WITH(run.group.step(batch, next_token), Contains("77") && Contains("[0, 29)"));
  Batch good;
  REQUIRE(run.loader.next(good));
  CHECK(run.group.step(good, next_token).loss() > 0);
}

TEST_CASE("gpt: rows shorter than the context use the first positions") {
  const auto model = factory("layers = 1\nwidth = 8\nheads = 2\ncontext = 40\n");
  Context context({.towers = "cpu:2", .threads_per_tower = 1});
  Loader loader(context, sentences(26), {.batch = 13, .epochs = 9});
  TowerGroupBase group(context, sgd({.lr = 0.5}),
                       [model] { return model->build(Shape{kContext}, kVocabulary); });
  const std::vector<float> before = group.parameter("positions.weight");
  REQUIRE(before.size() == 40 * 8);
  Batch batch;
  REQUIRE(loader.next(batch));
  group.step(batch, next_token);
  const std::vector<float> after = group.parameter("positions.weight");
  for (std::size_t i = 0; i < before.size(); ++i)
    REQUIRE((before[i] != after[i]) == (i < static_cast<std::size_t>(kContext) * 8));
}
