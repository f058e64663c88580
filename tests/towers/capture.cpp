// SPDX-License-Identifier: MIT
// Recorded passes: the same bits as given ones, and errors where a pass cannot be replayed.
#include <atomic>
#include <limits>

#include "belfry/autodiff/ops/elementwise/mul.h"
#include "belfry/autodiff/ops/loss/correct.h"
#include "belfry/core/error.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

ContextOptions cpu(int n, Executor e = Executor::in_place) {
  return {.towers = "cpu:" + std::to_string(n), .seed = 3, .threads_per_tower = 1, .executor = e};
}

GroupOptions recorded(GroupOptions options = {}) {
  options.capture = true;
  return options;
}

struct Result {
  std::string hash;
  std::vector<double> numbers;
  int calls = 0;  // of the step function
  bool operator==(const Result& o) const { return hash == o.hash && numbers == o.numbers; }
};

// 3 epochs of 43 rows in batches of 16: shards of full and of short batches take turns.
Result train(const ContextOptions& options, const Optimizer& optimizer, GroupOptions group) {
  Context context(options);
  group.first_bucket_bytes = group.bucket_bytes = 16384;
  TowerGroupBase towers(context, optimizer, mlp(0.2), std::move(group));
  Loader loader(context, blobs(43), {.batch = 16, .epochs = 3});
  Result out;
  std::atomic<int> calls{0};
  Batch batch;
  while (loader.next(batch)) {
    const Report r = towers.step(batch, [&](Module& m, const Batch& b, Step& step) {
      ++calls;
      const Tensor logits = static_cast<Mlp&>(m).forward(b["image"]);
      step.report("accuracy", correct(logits, b["label"]));
      return cross_entropy(logits, b["label"]);
    });
    out.numbers.insert(out.numbers.end(), {r.loss(), r.metrics.at("accuracy"), r.norm, r.weight});
  }
  Loader rows(context, blobs(19), {.batch = 11, .epochs = 1, .shuffle = false});
  out.numbers.push_back(towers.evaluate(rows, classify).loss);
  out.hash = towers.parameter_hash();
  out.calls = calls;
  return out;
}

}  // namespace

TEST_CASE("recorded passes give the bits of given ones and call the step function less",
          "[given]") {
  std::vector<Optimizer> ways(4, momentum({.lr = 0.2}).clip_global_norm(0.7).with_l2(1e-3));
  ways[1] = adam({.lr = 1e-2, .second_moment = "towers"})
                .with_statistics(Statistics::squares)
                .accumulating(2);
  ways[2].strict(8);
  ways[3] = sgd({.lr = 0.1});
  ways[3].guard = false;  // fold and update in one pass
  for (std::size_t w = 0; w < ways.size(); ++w)
    for (const int n : {1, 2, 3, 8})
      for (const Variables variables : {Variables::shared, Variables::replicated}) {
        INFO("way " << w << ", " << n << " towers, replicated " << static_cast<int>(variables));
        const GroupOptions options{.variables = variables};
        const Result want = train(cpu(n), ways[w], options);
        const Result got = train(cpu(n), ways[w], recorded(options));
        CHECK(got == want);
        CHECK(got.calls < want.calls);
      }
}

TEST_CASE("a kind of shard is called for twice, and again for each check") {
  for (const std::int64_t every : {0, 3}) {
    Context context(cpu(2));
    GroupOptions options = recorded();
    options.check_capture = every;
    TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(), options);
    std::atomic<int> calls{0};
    const LossFn counted = [&](Module& m, const Batch& b, Step& s) {
      ++calls;
      return classify(m, b, s);
    };
    const Batch ten = batch_of(context, 10), six = batch_of(context, 6);
    for (int u = 0; u < 10; ++u) towers.step(ten, counted);
    // Given in update 1, recorded in 2, and again in 5 and 8.
    CHECK(calls == 2 * (every == 0 ? 2 : 4));
    calls = 0;
    for (int u = 0; u < 2; ++u) towers.step(six, counted);
    CHECK(calls == 4);
    calls = 0;
    towers.step(six, counted);
    CHECK(calls == 0);
  }
}

TEST_CASE("what is recorded is logged, and takes no more memory when it is replayed") {
  Messages messages;
  ContextOptions options = cpu(1);
  options.log = messages.log();
  Context context(options);
  TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(0.2), recorded());
  const Batch batch = batch_of(context, 12);
  for (int u = 0; u < 3; ++u) towers.step(batch, classify);
  CHECK_THAT(messages.text, Contains("tower 0: step of 12 rows recorded: ") && Contains(" ops; ") &&
                                Contains("buffers of 0.") && Contains("in use at most"));
  const std::size_t before = towers.memory(0).live_bytes, asked = towers.memory(0).system_requests;
  for (int u = 0; u < 20; ++u) towers.step(batch, classify);
  CHECK(towers.memory(0).live_bytes == before);
  CHECK(towers.memory(0).system_requests == asked);
}

TEST_CASE("a tensor read while a step is recorded is an error that says so") {
  Context context(cpu(1));
  TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(), recorded());
  const LossFn reads = [](Module& m, const Batch& b, Step& s) {
    Loss loss = classify(m, b, s);
    loss.mean.item();
    return loss;
  };
  const Batch batch = batch_of(context, 8);
  towers.step(batch, reads);
  CHECK_THROWS_WITH(towers.step(batch, reads),
                    Contains("while a step is recorded") && Contains("train without capture"));
}

TEST_CASE("a recorded step whose ops change is refused at the next check") {
  Context context(cpu(2));
  GroupOptions options = recorded();
  options.check_capture = 2;
  TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(), options);
  bool twice = false;
  const LossFn changes = [&](Module& m, const Batch& b, Step&) {
    Tensor logits = static_cast<Mlp&>(m).forward(b["image"]);
    if (twice) logits = mul(logits, logits);
    return cross_entropy(logits, b["label"]);
  };
  const Batch batch = batch_of(context, 8);
  for (int u = 0; u < 3; ++u) towers.step(batch, changes);
  const std::string before = towers.parameter_hash();
  twice = true;
  CHECK_THROWS_WITH(towers.step(batch, changes),
                    Contains("the recorded step has other ops than in update 2") &&
                        Contains("mul") && Contains("cross_entropy") &&
                        Contains("train without capture"));
  CHECK(towers.parameter_hash() == before);
  CHECK_NOTHROW(towers.step(batch, changes));  // recorded anew
  CHECK(towers.parameter_hash() != before);
}

TEST_CASE("errors in replayed passes are those of given ones, and training goes on") {
  for (const int n : {1, 3}) {
    Context context(cpu(n));
    TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(), recorded());
    const Batch good = batch_of(context, 9);
    for (int u = 0; u < 3; ++u) towers.step(good, classify);
    const std::string before = towers.parameter_hash();
    CHECK_THROWS_WITH(
        towers.step(with_value(good, 5, std::numeric_limits<float>::quiet_NaN()), classify),
        Contains("non-finite gradient on tower 0, first in variable hidden.weight"));
    Batch wrong;
    std::vector<double> labels = good["label"].to_vector();
    labels[4] = 10;
    wrong.add("image", good["image"]);
    wrong.add("label",
              Tensor::from(labels, good["label"].shape(), DType::i32, good["label"].device()));
    wrong.rows = good.rows;
    CHECK_THROWS_AS(towers.step(wrong, classify), DataError);
    CHECK(towers.parameter_hash() == before);
    towers.step(good, classify);
    CHECK(towers.parameter_hash() != before);
  }
}

TEST_CASE("a step function that throws while it is recorded is recorded at the next update") {
  Context context(cpu(2)), plain_context(cpu(2));
  TowerGroupBase towers(context, momentum({.lr = 0.1}), mlp(), recorded()),
      plain(plain_context, momentum({.lr = 0.1}), mlp());
  int throws = 0;
  const LossFn fn = [&](Module& m, const Batch& b, Step& s) {
    Loss loss = classify(m, b, s);
    if (throws > 0 && s.tower == 1) throw DataError("thrown in the middle");
    return loss;
  };
  const Batch batch = batch_of(context, 8), same = batch_of(plain_context, 8);
  towers.step(batch, fn);
  throws = 1;
  CHECK_THROWS_WITH(towers.step(batch, fn), Contains("thrown in the middle"));
  throws = 0;
  for (int u = 0; u < 3; ++u) towers.step(batch, fn);
  for (int u = 0; u < 4; ++u) plain.step(same, classify);
  CHECK(towers.parameter_hash() == plain.parameter_hash());
}

TEST_CASE("variables that only some towers reach are counted as zero in replays too") {
  // Tower 0 leaves the gate out: with missing = "zero" its gradient counts as 0.
  struct Gated : Module {
    Linear layer{*this, "layer", 64, 10};
    Variable gate{*this, "gate", Shape{10}, Init::constant(1)};
  };
  const auto run = [](bool capture) {
    Context context(cpu(2));
    Optimizer o = momentum({.lr = 0.1});
    o.missing = MissingOnSome::zero;
    GroupOptions options;
    options.capture = capture;
    TowerGroup<Gated> towers(context, o, options);
    const Batch batch = batch_of(context, 8);
    for (int u = 0; u < 5; ++u)
      towers.step(batch, [](Gated& net, const Batch& b, Step& s) {
        Tensor logits = net.layer(b["image"]);
        if (s.tower == 1) logits = mul(logits, net.gate);
        return cross_entropy(logits, b["label"]);
      });
    return towers.parameter_hash();
  };
  CHECK(run(true) == run(false));
}
