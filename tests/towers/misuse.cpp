// SPDX-License-Identifier: MIT
// What programs get wrong around a group and a trainer: each is one error that says so, and changes
// nothing.
#include <limits>
#include <memory>
#include <optional>

#include "belfry/autodiff/ops/elementwise/add.h"
#include "belfry/autodiff/state.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  }
  return "no error";
}

// A model that is not the same every time it is made.
struct Odd : Module {
  enum class How : std::uint8_t { same, shape, order, fewer, more, state };
  Odd(How how, bool first) {
    const bool odd = !first;
    if (how == How::order && odd) b.emplace(*this, "b", Shape{3}, Init::zeros());
    a.emplace(*this, "a", Shape{how == How::shape && odd ? 4 : 3}, Init::zeros());
    if (how == How::order && odd) return;
    if (how == How::fewer && odd) return;
    b.emplace(*this, "b", Shape{3}, Init::zeros());
    if (how == How::more && odd) c.emplace(*this, "c", Shape{3}, Init::zeros());
    if (how == How::state && odd) s.emplace(*this, "s", Shape{3}, StateKind::mean);
  }
  std::optional<Variable> a, b, c;
  std::optional<ModuleState> s;
};

std::string odd_message(Odd::How how) {
  Context context({.towers = "cpu:3", .threads_per_tower = 1});
  int made = 0;
  return message([&] {
    const TowerGroupBase group(context, sgd(),
                               [&] { return std::make_unique<Odd>(how, made++ != 2); });
  });
}

Tensor scalar(const Tensor& like, double value) {
  return Tensor::from({value}, {}, DType::f32, like.device());
}

struct Fixture {
  explicit Fixture(const std::string& towers = "cpu:2", Optimizer optimizer = sgd({.lr = 0.001}))
      : context({.towers = towers, .threads_per_tower = 1, .log = messages.log()}),
        group(context, std::move(optimizer), lin()),
        batch(rows(8)) {}
  Batch rows(std::int64_t n) {
    Loader loader(context, lin_data(n), {.batch = n, .shuffle = false, .prefetch = 0});
    Batch b;
    loader.next(b);
    return b;
  }
  std::string step(const LossFn& fn) {
    return message([&] { group.step(batch, fn); });
  }
  Messages messages;
  Context context;
  TowerGroupBase group;
  Batch batch;
};

}  // namespace

TEST_CASE("Models that differ between towers are a ConfigError with the tower and the part") {
  CHECK(odd_message(Odd::How::same) == "no error");
  CHECK_THAT(odd_message(Odd::How::shape),
             Contains("ConfigError: the towers' models differ: found variable 'a' [4] on tower 2, "
                      "expected as on tower 0, variable 'a' [3]"));
  CHECK_THAT(odd_message(Odd::How::order), Contains("variable 'b' [3] on tower 2"));
  CHECK_THAT(
      odd_message(Odd::How::fewer),
      Contains("found no more variables or states on tower 2") && Contains("variable 'b' [3]"));
  CHECK_THAT(odd_message(Odd::How::more), Contains("variable 'c' [3] on tower 2"));
  CHECK_THAT(odd_message(Odd::How::state), Contains("state 's' [3] on tower 2"));
}

TEST_CASE("Functions and models that are not there are ConfigErrors") {
  Fixture f;
  CHECK_THAT(message([&] { TowerGroupBase(f.context, sgd(), TowerGroupBase::Factory()); }),
             Contains("ConfigError: the function that makes a tower's model: found an empty one"));
  CHECK_THAT(
      message([&] { TowerGroupBase(f.context, sgd(), [] { return std::unique_ptr<Module>(); }); }),
      Contains("one that returned null"));
  CHECK_THAT(f.step(LossFn()), Contains("ConfigError: the step function: found an empty one"));
  CHECK_THAT(message([&] { f.group.gradients(f.batch, LossFn()); }), Contains("step function"));
  Loader loader(f.context, lin_data(8), {.batch = 8});
  CHECK_THAT(message([&] { f.group.evaluate(loader, EvalFn()); }), Contains("step function"));
  CHECK_THAT(message([&] { Trainer(f.group, loader, LossFn()); }),
             Contains("ConfigError: the trainer's step function"));
  CHECK_THAT(message([&] { Checkpoint("", f.group); }), Contains("ConfigError: path"));
  for (const int tower : {-1, 2}) {
    const auto expected = Contains("ConfigError: tower of a group: found " + std::to_string(tower) +
                                   ", expected 0 to 1");
    CHECK_THAT(message([&] { f.group.replica(tower); }), expected);
    CHECK_THAT(message([&] { f.group.memory(tower); }), expected);
  }
  CHECK_THAT(message([&] { f.group.parameter("ww"); }), Contains("did you mean 'w'?"));
  CHECK_THAT(message([&] { f.group.set_clocks({.update = -1}); }),
             Contains("CheckpointError: clocks of a group: found update -1"));
  CHECK(f.step(lin_loss) == "no error");
}

TEST_CASE("Hooks: null, two of one name, keys of a table") {
  LinRun run(1, 1, sgd({.lr = 0.001}));
  Trainer trainer(run.group, run.loader, lin_loss);
  CHECK_THAT(message([&] { trainer.add(nullptr); }),
             Contains("ConfigError: a hook of the trainer: found null"));
  CHECK_THAT(message([&] { Trainer(run.group, run.loader, lin_loss, {.resume = "newest"}).run(); }),
             Contains("ConfigError: resume = \"newest\"") && Contains("no output folder"));
  trainer.add(make_hook("guard"));
  CHECK_THAT(message([&] { trainer.add(make_hook("guard", "skip = 1")); }),
             Contains("ConfigError: two hooks of a trainer have one name: found 'guard' twice"));
  CHECK_THAT(message([] { belfry::make_hook(builtin(), "gard"); }),
             Contains("unknown hook") && Contains("did you mean 'guard'?"));
  CHECK_THAT(message([] { belfry::make_hook(builtin(), "guard", "skp = 1"); }),
             Contains("ConfigError") && Contains("hook 'guard'") && Contains("'guard.skp'") &&
                 Contains("did you mean 'skip'?"));
  CHECK_THAT(message([] { belfry::make_hook(builtin(), "guard", "skip = -1"); }),
             Contains("found integer -1"));
}

TEST_CASE("A trainer takes the step function of a TowerGroup<Net>") {
  const auto trained = [](auto&& make) {
    Context context({.towers = "cpu:2", .threads_per_tower = 1});
    Loader loader(context, lin_data(8), {.batch = 4, .epochs = 3, .shuffle = false});
    TowerGroup<Lin> group(context, sgd({.lr = 0.001}));
    make(group, loader).run();
    return group.parameter_hash();
  };
  const std::string expected = trained(
      [](TowerGroup<Lin>& group, Loader& loader) { return Trainer(group, loader, lin_loss); });
  CHECK(trained([](TowerGroup<Lin>& group, Loader& loader) {
          return Trainer(
              group, loader,
              [](Lin& net, const Batch& b, Step&) { return mse(mul(b["x"], net.w), b["y"]); },
              {.resume = ""});
        }) == expected);
  CHECK(trained([](TowerGroup<Lin>& group, Loader& loader) {
          return Trainer(group, loader, LossFn(lin_loss));
        }) == expected);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
TEST_CASE("Options name what they set, without a warning for the rest") {
  CHECK(TrainerOptions{.output = "x"}.resume.empty());
  CHECK(TrainerOptions{.fallback = true}.config.empty());
  CHECK(RunState{.position = 3}.hooks.empty());
  CHECK(GroupOptions{.capture = true}.transport == "auto");
}
#pragma GCC diagnostic pop

TEST_CASE("A batch whose fields have other numbers of rows than it says is a DataError") {
  Fixture f;
  const std::string hash = f.group.parameter_hash();
  const Tensor x = Tensor::zeros({8, 1}, DType::f32, f.context.device(0));
  const auto with = [&](const Tensor& y, std::int64_t rows) {
    Batch b;
    b.add("x", x);
    b.add("y", y);
    b.rows = rows;
    return b;
  };
  const auto zeros = [&](const Shape& shape) {
    return Tensor::zeros(shape, DType::f32, f.context.device(0));
  };
  const auto all_say = [&](const Batch& b, const auto& matcher) {
    CHECK_THAT(message([&] { f.group.step(b, lin_loss); }), matcher);
    CHECK_THAT(message([&] { f.group.averaged(b, lin_loss); }), matcher);
    CHECK_THAT(message([&] { f.group.gradients(b, lin_loss); }), matcher);
  };
  all_say(with(zeros({8, 1}), 4),
          Contains("DataError: field 'x' of a batch: found shape [8, 1], expected batch.rows = 4"));
  all_say(with(zeros({8, 1}), 10), Contains("field 'x'") && Contains("batch.rows = 10"));
  all_say(with(zeros({6, 1}), 8), Contains("field 'y' of a batch: found shape [6, 1]"));
  all_say(with(zeros({}), 8), Contains("field 'y' of a batch: found shape []"));
  all_say(with(zeros({8, 1}), 0), Contains("a batch without rows") && Contains("set batch.rows"));
  CHECK(f.group.parameter_hash() == hash);
  CHECK(f.group.clocks().attempts == 0);
  f.group.step(with(zeros({8, 1}), 8), lin_loss);
}

TEST_CASE("What is wrong with a loss or a metric is said, in training and evaluation") {
  Fixture f;
  const std::string hash = f.group.parameter_hash();
  const auto says = [&](const LossFn& fn, const auto& matcher) {
    CHECK_THAT(f.step(fn), matcher);
    Loader loader(f.context, lin_data(8), {.batch = 8});
    CHECK_THAT(message([&] { f.group.evaluate(loader, fn); }), matcher);
  };
  says([](Module&, const Batch&, Step&) { return Loss{}; },
       Contains("GradientError: the step function's loss, its mean: found nothing"));
  says(
      [](Module&, const Batch& b, Step&) {
        return Loss{b["x"], b["x"]};
      },
      Contains("its mean: found [4, 1] f32, expected an f32 scalar"));
  says(
      [](Module& m, const Batch& b, Step& s) {
        return Loss{lin_loss(m, b, s).mean, {}};
      },
      Contains("the step function's loss, its weight: found nothing"));
  says(
      [](Module& m, const Batch& b, Step& s) {
        const Tensor weight = Tensor::from({4}, {}, DType::f64, b["x"].device());
        return Loss{lin_loss(m, b, s).mean, weight};
      },
      Contains("its weight: found [] f64"));
  says(
      [](Module& m, const Batch& b, Step& s) {
        s.report("speed", {b["x"], scalar(b["x"], 1)});
        return lin_loss(m, b, s);
      },
      Contains("step.report(\"speed\"): found sum [4, 1] f32, weight [] f32"));
  CHECK(f.group.parameter_hash() == hash);
  Loader loader(f.context, lin_data(8), {.batch = 8});
  f.group.evaluate(loader, lin_loss);
  CHECK_THAT(
      message([&] { f.group.evaluate(loader, lin_loss); }),
      Contains("DataError: evaluation: found 0 rows, a loader at its end") && Contains("seek(0)"));
}

TEST_CASE("A loss that is cut off from the model: the error says what cuts it") {
  Fixture f;
  CHECK_THAT(f.step([](Module& m, const Batch& b, Step& s) {
    Loss loss = lin_loss(m, b, s);
    loss.mean = loss.mean.detach();
    return loss;
  }),
             Contains("GradientError: no variable has a gradient: w") && Contains("detach()") &&
                 !Contains("missing ="));
  CHECK_THAT(message([&] { f.group.apply({}); }),
             Contains("GradientError: no variable has a gradient") &&
                 Contains("an averaged list") && !Contains("detach()"));
}

TEST_CASE("A negative loss weight on one tower is refused, whatever the others weigh") {
  for (const char* towers : {"cpu:1", "cpu:2", "cpu:3"}) {
    for (const std::int64_t accumulate : {1, 2}) {
      CAPTURE(towers, accumulate);
      Fixture f(towers, adam({.lr = 0.001}).accumulating(accumulate));
      const std::string hash = f.group.parameter_hash();
      CHECK_THAT(
          f.step([](Module& m, const Batch& b, Step& s) {
            Loss loss = lin_loss(m, b, s);
            loss.weight = scalar(loss.mean, b.first_row == 0 ? -1 : 40);
            return loss;
          }),
          Contains("NumericError: the loss weights") && Contains("NaN or a negative weight"));
      CHECK(f.group.parameter_hash() == hash);
      CHECK(f.step(lin_loss) == "no error");
    }
  }
}

TEST_CASE("A group's arrays are refused to a step function, and nothing is changed") {
  Fixture f;
  const TestFolder folder;
  const auto refused = [&](const std::string& call, const std::function<void()>& misuse) {
    const std::string hash = f.group.parameter_hash();
    CHECK_THAT(
        f.step([&](Module& m, const Batch& b, Step& s) {
          if (s.tower == 1) misuse();
          return lin_loss(m, b, s);
        }),
        Contains("ConfigError: " + call + " while the towers are at work") && Contains("tower 1"));
    CHECK(f.group.parameter_hash() == hash);
  };
  refused("set_arrays()", [&] { f.group.set_parameter("w", {5}); });
  refused("parameter()", [&] { f.group.parameter("w"); });
  refused("arrays()", [&] { f.group.arrays(); });
  refused("clocks()", [&] { f.group.clocks(); });
  refused("set_clocks()", [&] { f.group.set_clocks({}); });
  refused("parameter_hash()", [&] { f.group.parameter_hash(); });
  refused("a copy of the arrays", [&] { Checkpoint(folder / "c", f.group).save(); });
  Loader loader(f.context, lin_data(8), {.batch = 8});
  refused("evaluate()", [&] { f.group.evaluate(loader, lin_loss); });
  CHECK(f.step([&](Module& m, const Batch& b, Step& s) {
    return lin_loss(f.group.replica(s.tower), b, s).mean.defined() ? lin_loss(m, b, s) : Loss{};
  }) == "no error");
}

TEST_CASE("Patterns that match no variable are warned of, once") {
  Fixture f("cpu:1", sgd({.lr = 0.001}).freeze("v*").multiplier("*.bias", 2).multiplier("w", 1));
  CHECK_THAT(f.messages.text,
             Contains("warning: optimizer.freeze: 'v*' matches no variable of the model") &&
                 Contains("optimizer.multipliers: '*.bias'") && !Contains("'w'"));
  const std::string before = f.messages.text;
  const TowerGroupBase again(f.context, sgd({.lr = 0.001}).freeze("v*"), lin());
  CHECK_THAT(f.messages.text.substr(before.size()), !Contains("'v*'"));
}

TEST_CASE("A group that outlives its context says so and touches nothing") {
  for (const Variables variables : {Variables::shared, Variables::replicated}) {
    Messages messages;
    std::optional<Context> context;
    context.emplace(
        ContextOptions{.towers = "cpu:2", .threads_per_tower = 1, .log = messages.log()});
    Context other({.towers = "cpu:2", .threads_per_tower = 1});
    Loader loader(other, lin_data(8), {.batch = 8});
    Batch batch;
    loader.next(batch);
    {
      TowerGroupBase group(*context, momentum({.lr = 0.001}), lin(), {.variables = variables});
      group.step(batch, lin_loss);
      context.reset();
      const auto gone = Contains("DeviceError: the Context of this tower group is gone");
      CHECK_THAT(message([&] { group.step(batch, lin_loss); }), gone);
      CHECK_THAT(message([&] { group.gradients(batch, lin_loss); }), gone);
      CHECK_THAT(message([&] { group.averaged(batch, lin_loss); }), gone);
      CHECK_THAT(message([&] { group.evaluate(loader, lin_loss); }), gone);
      CHECK_THAT(message([&] { group.parameter("w"); }), gone);
      CHECK_THAT(message([&] { group.set_parameter("w", {1}); }), gone);
      CHECK_THAT(message([&] { group.clocks(); }), gone);
      CHECK_THAT(message([&] { group.replica(0); }), gone);
      CHECK_THAT(message([&] { group.memory(0); }), gone);
      CHECK_THAT(message([&] { Checkpoint("not-written", group).save(); }), gone);
    }
    CHECK_THAT(messages.text, Contains("a tower group outlived its Context"));
  }
}

TEST_CASE("Two groups of a context: a step through the other's model leaves that one alone") {
  for (const Variables variables : {Variables::shared, Variables::replicated}) {
    Context context({.towers = "cpu:2", .threads_per_tower = 1});
    const GroupOptions options{.variables = variables};
    TowerGroupBase first(context, adam({.lr = 0.01}), lin(), options);
    TowerGroupBase second(context, adam({.lr = 0.01}), lin(), options);
    TowerGroupBase alone(context, adam({.lr = 0.01}), lin(), options);
    Loader loader(context, lin_data(8), {.batch = 8, .shuffle = false, .prefetch = 0});
    Batch batch;
    loader.next(batch);
    for (int k = 0; k < 3; ++k) {
      first.step(batch, [&](Module& m, const Batch& b, Step& s) {
        const Tensor y =
            mul(mul(b["x"], static_cast<Lin&>(m).w), static_cast<Lin&>(second.replica(s.tower)).w);
        return mse(add(y, mul(b["x"], static_cast<Lin&>(m).w)), b["y"]);
      });
      CHECK(second.parameter_hash() == alone.parameter_hash());
      second.step(batch, lin_loss);
      alone.step(batch, lin_loss);
      CHECK(second.parameter_hash() == alone.parameter_hash());
    }
    CHECK(first.parameter_hash() != second.parameter_hash());
  }
}
