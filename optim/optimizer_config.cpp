// SPDX-License-Identifier: MIT
#include "belfry/optim/optimizer_config.h"

#include <charconv>
#include <optional>

#include "belfry/core/error.h"
#include "belfry/core/plugin_choice.h"
#include "belfry/optim/optimizer_internal.h"

namespace belfry {
namespace {

// "*.bias=2" as ("*.bias", 2).
std::optional<std::pair<std::string, double>> parse_multiplier(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == 0 || equals == text.npos) return std::nullopt;
  const auto trimmed = [](std::string s) {
    s.erase(0, std::min(s.find_first_not_of(' '), s.size()));
    s.erase(s.find_last_not_of(' ') + 1);
    return s;
  };
  const std::string pattern = trimmed(text.substr(0, equals));
  const std::string number = trimmed(text.substr(equals + 1));
  double factor = 0;
  const char* const last = number.data() + number.size();
  const auto [end, status] = std::from_chars(number.data(), last, factor);
  if (pattern.empty() || number.empty() || status != std::errc() || end != last)
    return std::nullopt;
  return std::pair{pattern, factor};
}

}  // namespace

struct OptimizerLoader::Tables {
  Optimizer value;
  std::shared_ptr<Rule> rule;
  std::shared_ptr<Schedule> schedule;
  std::string clip = "none", statistics = "none", missing = "reject", reduce = "repeatable";
  std::vector<std::string> multipliers;

  void read_words();
  std::string multipliers_fault();
  void declare(Schema& schema);
};

void OptimizerLoader::Tables::read_words() {
  value.clip = clip == "value"         ? Clip::value
               : clip == "global_norm" ? Clip::global_norm
                                       : Clip::none;
  value.statistics = statistics == "squares" ? Statistics::squares
                     : statistics == "norms" ? Statistics::norms
                                             : Statistics::none;
  value.reduce = reduce == "strict" ? ReduceMode::strict
                 : reduce == "fast" ? ReduceMode::fast
                                    : ReduceMode::repeatable;
  value.missing = missing == "zero" ? MissingOnSome::zero : MissingOnSome::reject;
}

std::string OptimizerLoader::Tables::multipliers_fault() {
  value.multipliers.clear();
  for (const std::string& text : multipliers) {
    const auto parsed = parse_multiplier(text);
    if (!parsed)
      return "multipliers: found '" + text + "', expected 'pattern=factor', e.g. '*.bias=2'";
    value.multipliers.push_back(*parsed);
  }
  return "";
}

void OptimizerLoader::Tables::declare(Schema& schema) {
  schema.key("clip", clip,
             {.choices = {"none", "value", "global_norm"}, .help = "of the averaged gradient"});
  schema.key("multipliers", multipliers,
             {.help = "'pattern=factor' of the averaged gradient; a later one wins"});
  schema.key("statistics", statistics,
             {.choices = {"none", "norms", "squares"}, .help = "noise scale and SNR; all squares"});
  schema.key("reduce", reduce,
             {.choices = {"repeatable", "strict", "fast"},
              .help = "strict: the same bits for any number of towers up to virtual_shards"});
  schema.key("missing", missing,
             {.choices = {"reject", "zero"}, .help = "a gradient missing on some towers only"});
  // First among the rules: the ones after it check what it has read.
  schema.rule([this] {
    read_words();
    return multipliers_fault();
  });
  declare_values(schema, value);
}

OptimizerLoader::OptimizerLoader(Document& document, const Registry& registry)
    : tables_(std::make_shared<Tables>()) {
  Tables& t = *tables_;
  t.rule = choose_plugin<RuleEntry>(document, registry, "optimizer", "optimizer", "momentum");
  if (t.rule) {
    t.value.lr.base = t.rule->defaults().lr;
    t.value.weight_decay = t.rule->defaults().weight_decay;
  }
  Schema general;
  t.declare(general);
  document.bind("optimizer", general);
  if (t.rule) {
    Schema own;
    t.rule->declare(own);
    document.bind("optimizer", own);
  }
  t.schedule = choose_plugin<ScheduleEntry>(document, registry, "schedule", "schedule", "constant");
  Schema warmup;
  declare_warmup(warmup, t.value.lr);
  document.bind("schedule", warmup);
  if (t.schedule) {
    Schema own;
    t.schedule->declare(own);
    own.rule([&t] {
      LearningRate rate = t.value.lr;
      rate.schedule = t.schedule;
      return rate.fault({});
    });
    document.bind("schedule", own);
  }
}

Optimizer OptimizerLoader::build() const {
  Optimizer out = tables_->value;
  out.rule = tables_->rule;
  out.lr.schedule = tables_->schedule;
  out.validate();
  return out;
}

}  // namespace belfry
