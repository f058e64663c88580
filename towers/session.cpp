// SPDX-License-Identifier: MIT
#include "belfry/towers/session.h"

#include <algorithm>

#include "belfry/allreduce/transport_choice.h"
#include "belfry/autodiff/ops/loss/absolute_error.h"
#include "belfry/autodiff/ops/loss/correct.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/ops/loss/mse.h"
#include "belfry/core/key_error.h"
#include "belfry/core/names_text.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/row_keys.h"
#include "belfry/optim/statistics.h"
#include "belfry/towers/data_warnings_internal.h"
#include "belfry/towers/group_internal.h"
#include "belfry/towers/opening_internal.h"

namespace belfry {
namespace {

const Field* find_field(const Dataset& data, const std::string& name) {
  for (const Field& f : data.fields())
    if (f.name == name) return &f;
  return nullptr;
}

// The key that says how many classes there are; "" where none does.
std::string classes_key(const DataSource& source) {
  for (const char* key : {"classes", "vocabulary", "names"})
    if (source.has_key(key)) return key;
  return "";
}

// The key that changes the shape of rows; "" where none does.
std::string shape_key(const DataSource& source) {
  for (const char* key : {"shape", "size", "context"})
    if (source.has_key(key)) return key;
  return "";
}

bool has_targets(const Dataset& data) {
  return find_field(data, "target") != nullptr && find_field(data, "label") == nullptr;
}

// Models read their own field and "label", with the number of classes, or "target".
void check_fields(const Dataset& data, const std::string& table, const std::string& model,
                  const ModelInput& input, const std::string& classes_key) {
  const std::string answer = has_targets(data) ? "target" : "label";
  const std::string wanted = "fields '" + input.field + "' and '" + answer + "'";
  const Field* const field = find_field(data, input.field);
  for (const std::string& name : {input.field, answer})
    if (find_field(data, name) == nullptr)
      throw DataError(ErrorText{.what = "[" + table + "] has no field '" + name + "'",
                                .found = data.describe(),
                                .expected = wanted + ", which model '" + model + "' reads"});
  if (field->dtype != input.dtype)
    throw DataError(ErrorText{.what = "[" + table + "] field '" + input.field +
                                      "' has another type than model '" + model + "' reads",
                              .found = std::string(name_of(field->dtype)),
                              .expected = std::string(name_of(input.dtype))});
  if (answer == "label" && data.classes() < 2)
    throw DataError(ErrorText{.what = "[" + table + "] is not a classification set",
                              .found = data.describe(),
                              .expected = "at least 2 classes",
                              .fix = classes_key.empty() ? "" : "set data." + classes_key});
}

}  // namespace

ConfigError no_test() {
  return ConfigError(ErrorText{.what = "the config has no table [test]",
                               .fix = "add one: what it does not say it takes from [data]"});
}

LossFn regression_loss(const std::string& field) {
  return [field](Module& module, const Batch& batch, Step& step) {
    const Tensor y = static_cast<Classifier&>(module).forward(batch[field]);
    step.report("mae", absolute_error(y, batch["target"]));
    return mse(y, batch["target"]);
  };
}

LossFn classifier_loss(std::int64_t ignore, const std::string& field, double smoothing) {
  std::optional<std::int32_t> skipped;
  if (ignore != kNoLabel) skipped = static_cast<std::int32_t>(ignore);
  return [skipped, field, smoothing](Module& module, const Batch& batch, Step& step) {
    const Tensor logits = static_cast<Classifier&>(module).forward(batch[field]);
    step.report("accuracy", correct(logits, batch["label"], skipped));
    return cross_entropy(logits, batch["label"], skipped, smoothing);
  };
}

TrainSession::TrainSession(TrainConfig config, const Log& log, SessionOptions session)
    : config_(std::move(config)) {
  const bool strict = config_.optimizer.reduce == ReduceMode::strict;
  context_ = std::make_unique<Context>(
      ContextOptions{.towers = config_.towers,
                     .seed = static_cast<std::uint64_t>(config_.seed),
                     .threads_per_tower = strict && config_.threads_per_tower == 0
                                              ? 1  // a constant: the bits depend on it
                                              : static_cast<int>(config_.threads_per_tower),
                     .precision = parse_precision(config_.precision),
                     .log = log});
  check_strict();
  if (config_.optimizer.statistics != Statistics::none)
    require_units_for_noise(config_.optimizer.units(context_->towers()));
  open_all(session.saved, session.predict);
  const Shape row = find_field(*data_, config_.model->input().field)->shape;
  const std::int64_t classes = outputs();
  const std::shared_ptr<ModelFactory> model = config_.model;
  GroupOptions options;
  options.variables = config_.variables == "replicated" ? Variables::replicated : Variables::shared;
  options.transport = config_.transport;
  options.timeout_seconds = config_.timeout_seconds;
  options.exchange_delay = config_.exchange_delay;
  options.check_replicas = config_.check_replicas;
  options.capture = config_.capture;
  options.check_capture = config_.check_capture;
  options.log_placement = session.log_placement;
  plan(row, classes, options.variables);
  if (session.saved.rows == 0) check_passes(row, classes);
  if (session.plan_only) return;
  group_ = std::make_unique<TowerGroupBase>(
      *context_, config_.optimizer, [model, row, classes] { return model->build(row, classes); },
      options);
}

void TrainSession::check_strict() const {
  try {
    leaf_plan(config_.optimizer, context_->towers());
  } catch (const ConfigError& error) {
    const bool shards = config_.document->has_key("optimizer", "virtual_shards");
    throw ConfigError(
        config_.document->placed("optimizer", shards ? "virtual_shards" : "reduce", error.text()));
  }
}

// [data], then what is measured against it, then the loader.
void TrainSession::open_all(const DataRecord& saved, bool predict) {
  recorded_ = saved.rows > 0;
  std::unique_ptr<Opening> validation, test;
  const auto begin = [&](const std::optional<DataSource>& source, const char* table) {
    const bool alone = source && source->factory->stands_alone() && !recorded_;
    return alone ? std::make_unique<Opening>(
                       context_->host(),
                       [this, &source, table] { return read(*source, table, nullptr); })
                 : nullptr;
  };
  if (config_.validation) validation = begin(config_.validation, "validation");
  if (!predict) test = begin(config_.test, "test");
  if (recorded_) {
    data_ = recorded_data(saved);
    config_.loader.augment = {};
    context_->log("data: {}", data_->describe());
    check_fields(*data_, "data", config_.model_name, config_.model->input(), "");
    check_recorded(saved);
  } else {
    data_ = open(config_.data, "data");
  }
  if (config_.validation && !recorded_)
    validation_ = open(*config_.validation, "validation", validation.get());
  if (config_.test && !predict) test_ = open(*config_.test, "test", test.get());
  if (predict) predict_ = open(*config_.predict, "predict");
  if (regression() && config_.label_smoothing > 0)
    throw ConfigError(config_.document->placed(
        "", "label_smoothing",
        {.what = "label_smoothing is for classes", .found = data_->describe()}));
  LoaderOptions options = config_.loader;
  if (recorded_) options.drop_last = false;
  loader_ = std::make_unique<Loader>(*context_, data_, options);
  if (recorded_) return;
  check_scores();
  check_schedule({loader_->rows_per_epoch(), options.batch});
}

// That the config's [data] makes such rows as the model was trained on: what is read beside it
// takes its keys from there.
void TrainSession::check_recorded(const DataRecord& saved) const {
  const RowKeys now = row_keys_of(config_.data.name, *config_.data.factory);
  const RowKeys& before = saved.row_keys;
  if (before.empty()) return;
  if (before.at("name") != now.at("name")) {
    context_->logger().warn(
        "the model was trained on rows with {}; [data] is of another kind now, '{}': whether its "
        "rows are made the same way, nobody can tell",
        row_keys_text(before), now.at("name"));
    return;
  }
  RowKeys found, expected;
  for (const auto& [key, value] : now) {
    const auto old = before.find(key);
    if (old == before.end() || old->second == value) continue;
    found[key] = value;
    expected[key] = old->second;
  }
  if (found.empty()) return;
  throw CheckpointError(config_.document->placed(
      "data", found.begin()->first,
      {.what = "the checkpoint was trained on other data than this config's [data]",
       .found = row_keys_text(found),
       .expected = row_keys_text(expected) + ", as the checkpoint says",
       .fix = "set that in [data], or name a checkpoint of this config by --checkpoint; files of "
              "another kind have keys of their own in [test] and [predict]"}));
}

// [checkpoint] and [early_stop] choose by a figure that the reports will have, and the better way.
void TrainSession::check_scores() const {
  const std::string own = regression() ? "mae" : "accuracy";
  for (const auto& [table, score] : config_.scores) {
    const auto refuse = [&, t = table](const std::string& key, const ErrorText& text) {
      throw ConfigError(config_.document->placed(t, key, text));
    };
    if (score.metric != "auto" && score.metric != "loss" && score.metric != own)
      refuse("metric", {.what = "the validation reports will have no such figure as " + table +
                                ".metric names",
                        .found = "'" + score.metric + "'",
                        .expected = "'loss' or '" + own + "': [data] has " +
                                    (regression() ? "numbers to be predicted" : "labels")});
    const std::string figure = score.metric != "auto" ? score.metric : regression() ? "loss" : own;
    const std::string better = figure == "accuracy" ? "max" : "min";
    if (score.mode != "auto" && score.mode != better)
      refuse("mode", {.what = table + ".mode takes the worst for the best",
                      .found = "'" + score.mode + "' of '" + figure + "'",
                      .expected = "'" + better + "' or 'auto'"});
  }
}

// Whether schedule and warm-up fit each other and the run.
void TrainSession::check_schedule(const Clock& clock) const {
  const LearningRate& lr = config_.optimizer.lr;
  if (const std::string fault = lr.fault(clock); !fault.empty())
    throw ConfigError(config_.document->placed("schedule", "warmup", {.what = fault}));
  const std::int64_t updates = loader_->batches_per_epoch() * loader_->options().epochs;
  if (updates == 0) return;
  const std::string fault = lr.schedule ? lr.schedule->run_fault(updates, clock) : "";
  if (!fault.empty())
    throw ConfigError(config_.document->placed("schedule", "stable", {.what = fault}));
  const Period warmup = Period::parse(lr.warmup, "warmup");
  const std::int64_t rise = warmup.to_updates(clock.rows_per_epoch, clock.batch);
  if (rise >= updates)
    context_->logger().warn(
        "schedule.warmup takes {}, and the run ends with update {}: it never has the base rate",
        count_text(rise, "update"), updates);
}

bool TrainSession::regression() const { return has_targets(*data_); }

std::int64_t TrainSession::outputs() const {
  return regression() ? find_field(*data_, "target")->shape.size() : data_->classes();
}

// What would make the model smaller, of what there is here.
std::string TrainSession::smaller() const {
  std::string out = config_.model->size_keys();
  const auto add = [&out](const std::string& key) { out += (out.empty() ? "" : ", ") + key; };
  if (const std::string key = classes_key(config_.data); !key.empty() && key != "names")
    add("data." + key);
  if (context_->towers() > 1) add("towers");
  return out.empty() ? "use a smaller model" : "lower " + out;
}

// A model that does not take the rows says what it takes; what changes rows is the data's.
void TrainSession::plan(const Shape& row, std::int64_t classes, Variables variables) {
  std::unique_ptr<Classifier> module;
  config_.at_place("model", [&] {
    try {
      module = config_.model->build(row, classes);
    } catch (const KeyError&) {
      throw;
    } catch (const ConfigError& error) {
      ErrorText text = error.text();
      const std::string key = shape_key(config_.data);
      if (!key.empty() && text.file.empty())
        text.fix += (text.fix.empty() ? "" : ", or ") + ("set data." + key) +
                    (key == "shape" && row.rank() == 2  // grey images without their one channel
                         ? " = " + Shape{row[0], row[1], 1}.text()
                         : "");
      throw ConfigError(text);
    }
  });
  plan_ = plan_memory(*module, config_.optimizer, context_->towers(),
                      possible_variables(*context_, variables));
  config_.at_place("model", [&] { require_memory(plan_, *context_, smaller()); });
  config_.at_place("model", [&] {
    if (plan_.variables.empty())  // of a list of layers: other models have some
      throw KeyError("layers",
                     ErrorText{.what = "model '" + config_.model_name + "' has nothing to train",
                               .found = "no variables",
                               .expected = "at least one, such as a linear layer's weight"});
  });
  config_.at_place("optimizer", [&] { check_patterns(); });
}

// Names of variables in [optimizer].
void TrainSession::check_patterns() const {
  const Optimizer& o = config_.optimizer;
  const auto& variables = plan_.variables;
  std::vector<std::string> names;
  for (const auto& v : variables) names.push_back(v.first);
  warn_unmatched(o, names, "model '" + config_.model_name + "'", context_->logger());
  if (std::all_of(variables.begin(), variables.end(),
                  [&](const auto& v) { return o.frozen_variable(v.first); }))
    throw KeyError("freeze",
                   ErrorText{.what = "optimizer.freeze leaves nothing to train",
                             .found = "all variables of model '" + config_.model_name + "'",
                             .expected = "at least one that is trained"});
}

// What batch norm would refuse at the end of the first epoch.
void TrainSession::check_passes(const Shape& row, std::int64_t classes) const {
  const std::int64_t needed = config_.model->rows_needed(row, classes);
  const std::int64_t batch = loader_->options().batch, rows = loader_->rows_per_epoch();
  for (const std::int64_t part : {std::min(batch, rows), rows % batch}) {
    if (part == 0) continue;
    const std::int64_t least = smallest_pass(config_.optimizer, context_->towers(), part);
    if (least >= needed) continue;
    const bool last = part != std::min(batch, rows);
    const bool strict = config_.optimizer.reduce == ReduceMode::strict;
    const Optimizer& o = config_.optimizer;
    throw ConfigError(config_.document->placed(
        "", "batch",
        {.what = "batch norm of model '" + config_.model_name + "' needs " +
                 count_text(needed, "row") + " in every backward pass",
         .found = count_text(least, "row") + " in one of " + (last ? "the last batch" : "a batch") +
                  ": " + count_text(part, "row") + " over " +
                  (strict ? count_text(o.virtual_shards, "virtual shard")
                          : count_text(context_->towers(), "tower")) +
                  (o.accumulate > 1 ? " with accumulate = " + std::to_string(o.accumulate) : ""),
         .fix = (last ? std::string("set loader.drop_last = true, or another batch")
                      : std::string("raise batch")) +
                (strict ? " or lower optimizer.virtual_shards" : " or use fewer towers") +
                (o.accumulate > 1 ? " or lower optimizer.accumulate" : "")}));
  }
}

TrainSession::~TrainSession() = default;

std::shared_ptr<const Dataset> TrainSession::read(const DataSource& source,
                                                  const std::string& table,
                                                  const Dataset* beside) const {
  std::shared_ptr<const Dataset> out;
  config_.at_place(table, [&] {
    if (table == "predict" && !source.factory->without_labels())
      throw ConfigError(ErrorText{.what = "rows of kind '" + source.name + "' always have labels",
                                  .fix = "name the files in [test], and use belfry eval "
                                         "--predictions FILE"});
    out = beside != nullptr ? source.factory->open_beside(config_.base, *beside)
                            : source.factory->open(config_.base);
  });
  return with_row_keys(std::move(out), row_keys_of(source.name, *source.factory));
}

std::shared_ptr<const Dataset> TrainSession::open(const DataSource& source,
                                                  const std::string& table, Opening* opening) {
  std::shared_ptr<const Dataset> out =
      opening != nullptr ? opening->get() : read(source, table, data_.get());
  if (data_) check_extra(*out, table);
  if (table != "predict")
    check_fields(*out, table, config_.model_name, config_.model->input(), classes_key(source));
  context_->log("{}: {}{}", table, out->describe(),
                source.repeats ? "; rows that [data] trains on" : "");
  if (!data_ && !out->warning().empty()) context_->logger().warn("{}", out->warning());
  if (data_) return out;
  for (const std::string& text :
       data_warnings(*out, source.has_key("scale"), source.has_key("standardize")))
    context_->logger().warn("{}", text);
  return out;
}

// [test] or [validation] beside [data], of which all must be alike but the number of rows.
void TrainSession::check_extra(const Dataset& extra, const std::string& table) const {
  const auto refuse = [&](const std::string& what, const std::string& found,
                          const std::string& expected, const std::string& fix) {
    const std::string than = recorded_ ? " the data of the checkpoint" : " [data]";
    const std::string other = recorded_ ? " or name a checkpoint of such rows by --checkpoint" : "";
    throw DataError(config_.document->placed(
        table, "name",
        {.what = "[" + table + "] has " + what + than,
         .found = found,
         .expected = expected,
         .fix = fix + (fix.empty() && recorded_ ? other.substr(4) : other)}));
  };
  if (extra.class_names() != data_->class_names())
    refuse("other classes than", names_text(extra.class_names()), names_text(data_->class_names()),
           "give both the same list as `names`");
  const Field *const answers = find_field(extra, "target"), *const theirs_answers =
                                                                find_field(*data_, "target");
  if ((answers == nullptr) != (theirs_answers == nullptr) ||
      (answers != nullptr && !(answers->shape == theirs_answers->shape)))
    refuse("other targets than", answers == nullptr ? "labels" : answers->shape.text(),
           theirs_answers == nullptr ? "labels" : theirs_answers->shape.text(),
           "give both the same `targets`");
  const std::string field = config_.model->input().field;
  const Field *const mine = find_field(extra, field), *const theirs = find_field(*data_, field);
  const std::string key = shape_key(config_.data);
  if (mine != nullptr && theirs != nullptr && !(mine->shape == theirs->shape))
    refuse(
        "other " + field + "s than", mine->shape.text(), theirs->shape.text(),
        key.empty() ? "name files of the same kind of rows" : "give both the same `" + key + "`");
  const std::string classes = classes_key(config_.data);
  if (extra.classes() > data_->classes())
    refuse("more classes than", std::to_string(extra.classes()),
           "at most " + std::to_string(data_->classes()),
           classes.empty() ? "" : "set data." + classes + " = " + std::to_string(extra.classes()));
}

LossFn TrainSession::loss(const DataSource& source) const {
  if (regression()) return regression_loss(config_.model->input().field);
  return classifier_loss(source.ignore, config_.model->input().field);
}

EvalReport TrainSession::evaluate(const std::shared_ptr<const Dataset>& data,
                                  const DataSource& source, bool ema) {
  Loader loader(
      *context_, data,
      {.batch = std::max<std::int64_t>(config_.loader.batch, 256), .epochs = 1, .shuffle = false});
  return group_->evaluate(loader, loss(source), ema);
}

std::shared_ptr<const Dataset> TrainSession::test_data() {
  if (!test_) throw no_test();
  return test_;
}

EvalReport TrainSession::evaluate_test(bool ema) {
  return evaluate(test_data(), *config_.test, ema);
}

EvalReport TrainSession::evaluate_validation(bool ema) {
  if (!validation_) throw ConfigError("the config has no table [validation]");
  return evaluate(validation_, *config_.validation, ema);
}

Trainer TrainSession::trainer(TrainerOptions options) {
  options.output = config_.output;
  options.config = config_.effective;
  options.fallback = config_.fallback;
  const std::string field = config_.model->input().field;
  Trainer out(*group_, *loader_,
              regression() ? regression_loss(field)
                           : classifier_loss(config_.data.ignore, field, config_.label_smoothing),
              std::move(options));
  for (const auto& hook : config_.hooks) out.add(hook);
  if (validation_) out.validation([this] { return evaluate_validation(); });
  return out;
}

}  // namespace belfry
