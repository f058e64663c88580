// SPDX-License-Identifier: MIT
#include "belfry/optim/optimizer.h"

#include <functional>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("globs", "[optim]") {
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("*", "hidden.weight"));
  CHECK(glob_match("*.bias", "hidden.bias"));
  CHECK_FALSE(glob_match("*.bias", "hidden.bias2"));
  CHECK_FALSE(glob_match("*.bias", "bias"));
  CHECK(glob_match("hidden.*", "hidden.weight"));
  CHECK(glob_match("layers.?.weight", "layers.3.weight"));
  CHECK_FALSE(glob_match("layers.?.weight", "layers.13.weight"));
  CHECK(glob_match("*a*b*", "xxaxxabxx"));
  CHECK_FALSE(glob_match("*a*b*c", "xxaxxabxx"));
  CHECK(glob_match("**", "x"));
  CHECK_FALSE(glob_match("?", ""));
  // Star after star: polynomial, not exponential.
  CHECK_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST_CASE("patterns decide by variable name, the last multiplier wins", "[optim]") {
  Optimizer o = momentum();
  o.decay(0.01, {"*.bias", "norm.*"}).with_l2(0.5).multiplier("*", 2).multiplier("head.*", 10);
  o.multiplier("embed.*", 1e-7).freeze("stem.*");
  CHECK(o.decay_of("head.weight") == 0.01);
  CHECK(o.decay_of("head.bias") == 0);
  CHECK(o.l2_of("norm.scale") == 0);
  CHECK(o.l2_of("head.weight") == 0.5);
  CHECK(o.multiplier_of("hidden.weight") == 2);
  CHECK(o.multiplier_of("head.weight") == 10);
  CHECK_FALSE(o.frozen_variable("head.weight"));
  CHECK(o.frozen_variable("stem.weight"));
  CHECK(o.frozen_variable("embed.weight"));  // F11: below 1e-6 nothing is computed
  Optimizer small = sgd();
  small.multiplier("a", 1e-6).multiplier("b", -2).multiplier("c", 0);
  CHECK_FALSE(small.frozen_variable("a"));
  CHECK_FALSE(small.frozen_variable("b"));
  CHECK(small.frozen_variable("c"));
  CHECK_FALSE(small.frozen_variable("d"));
  CHECK(small.multiplier_of("d") == 1);
}

TEST_CASE("squares are asked for by statistics or rule", "[optim]") {
  CHECK_FALSE(momentum().needs_squares());
  CHECK_FALSE(momentum().with_statistics(Statistics::norms).needs_squares());
  CHECK(momentum().with_statistics(Statistics::squares).needs_squares());
  CHECK(adam({.second_moment = "towers"}).needs_squares());
}

TEST_CASE("setters and defaults", "[optim]") {
  const Optimizer o = momentum({.lr = 0.2}).clip_global_norm(1.5).with_ema(0.999).accumulating(4);
  CHECK(o.rule->name() == "momentum");
  CHECK(o.lr.base == 0.2);
  CHECK(o.clip == Clip::global_norm);
  CHECK(o.clip_limit == 1.5);
  CHECK(o.ema == 0.999);
  CHECK(o.accumulate == 4);
  CHECK(o.guard);
  CHECK(o.missing == MissingOnSome::reject);
  CHECK_NOTHROW(o.validate());
  CHECK(adamw().weight_decay == 0.01);
  CHECK(adamw({.weight_decay = 0.1}).weight_decay == 0.1);
  CHECK(adam().weight_decay == 0);
  CHECK(adam().lr.base == 1e-3);
  CHECK(rmsprop().lr.base == 1e-2);
  CHECK(sgd().rule->state_names().empty());
  CHECK(rmsprop().rule->state_names() == std::vector<std::string>{"square"});
  CHECK(rmsprop({.momentum = 0.9}).rule->state_names().size() == 2);
}

TEST_CASE("B32: validate names key, value and range", "[optim][scenario]") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -0.1, nan, inf}) {
    const std::string text = message_of([&] { sgd({.lr = bad}).validate(); });
    INFO(text);
    CHECK(has(text, "'lr'"));
    CHECK(has(text, "(0, 1000000]"));
  }
  CHECK(has(message_of([&] { sgd({.lr = -0.1}).validate(); }), "found -0.1"));
  CHECK(has(message_of([&] { sgd({.lr = nan}).validate(); }), "found nan"));
  for (const double bad : {1.0, 1.5, -0.1, nan, inf}) {
    CHECK(has(message_of([&] { momentum({.momentum = bad}); }), "'momentum'"));
    CHECK(has(message_of([&] { nesterov({.momentum = bad}); }), "[0, 1)"));
    CHECK(has(message_of([&] { adam({.beta2 = bad}); }), "'beta2'"));
    CHECK(has(message_of([&] { adamw({.beta1 = bad}); }), "'beta1'"));
    CHECK(has(message_of([&] { rmsprop({.alpha = bad}); }), "'alpha'"));
    CHECK(has(message_of([&] { sgd().with_ema(bad).validate(); }), "'ema'"));
  }
  CHECK(has(message_of([&] { adam({.eps = 0}); }), "'eps'"));
  CHECK(has(message_of([&] { adam({.second_moment = "tower"}); }), "'towers'"));
  for (const double bad : {0.0, nan, -1.0})
    CHECK(has(message_of([&] { sgd().clip_global_norm(bad).validate(); }), "clip_limit"));
  for (const double bad : {nan, -1.0, inf}) {
    CHECK(has(message_of([&] { sgd().decay(bad).validate(); }), "'weight_decay'"));
    CHECK(has(message_of([&] { sgd().with_l2(bad).validate(); }), "'l2'"));
  }
  CHECK(has(message_of([&] { sgd().multiplier("a", nan).validate(); }), "multipliers: 'a'"));
  CHECK(has(message_of([&] { sgd().multiplier("", 1).validate(); }), "empty"));
  CHECK(has(message_of([&] { sgd().accumulating(0).validate(); }), "'accumulate'"));
  CHECK(has(message_of([&] { sgd({.lr = 1}).decay(1).validate(); }), "lr * weight_decay"));
  CHECK(has(message_of([&] { Optimizer().validate(); }), "no rule"));
  Optimizer idle = sgd();
  idle.clip_limit = 1;
  CHECK(has(message_of([&] { idle.validate(); }), "no effect"));
  Optimizer warm = sgd();
  warm.lr.warmup = "soon";
  CHECK(has(message_of([&] { warm.validate(); }), "soon"));
}

}  // namespace belfry
