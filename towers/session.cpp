// SPDX-License-Identifier: MIT
#include "belfry/towers/session.h"

#include "belfry/allreduce/transport_choice.h"
#include "belfry/autodiff/ops/loss/correct.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/core/error.h"
#include "belfry/optim/statistics.h"

namespace belfry {
namespace {

const Field* find_field(const Dataset& data, const std::string& name) {
  for (const Field& f : data.fields())
    if (f.name == name) return &f;
  return nullptr;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out.empty() ? "no names" : out;
}

// Classifiers read the model's field and "label", and need the number of classes.
void check_fields(const Dataset& data, const std::string& table, const std::string& model,
                  const ModelInput& input) {
  const std::string wanted = "fields '" + input.field + "' and 'label'";
  const Field* const field = find_field(data, input.field);
  for (const std::string& name : {input.field, std::string("label")})
    if (find_field(data, name) == nullptr)
      throw DataError(ErrorText{.what = "[" + table + "] has no field '" + name + "'",
                                .found = data.describe(),
                                .expected = wanted + ", which model '" + model + "' reads"});
  if (field->dtype != input.dtype)
    throw DataError(ErrorText{.what = "[" + table + "] field '" + input.field +
                                      "' has another type than model '" + model + "' reads",
                              .found = std::string(name_of(field->dtype)),
                              .expected = std::string(name_of(input.dtype))});
  if (data.classes() < 2)
    throw DataError(ErrorText{.what = "[" + table + "] is not a classification set",
                              .found = data.describe(),
                              .expected = "at least 2 classes"});
}

}  // namespace

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
  if (config_.optimizer.statistics != Statistics::none)
    require_units_for_noise(config_.optimizer.units(context_->towers()));
  data_ = open(config_.data, "data");
  if (config_.validation) validation_ = open(*config_.validation, "validation");
  if (config_.test) test_ = open(*config_.test, "test");
  loader_ = std::make_unique<Loader>(*context_, data_, config_.loader);
  const Shape row = find_field(*data_, config_.model->input().field)->shape;
  const std::int64_t classes = data_->classes();
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
  plan_ = plan_memory(*model->build(row, classes), config_.optimizer, context_->towers(),
                      possible_variables(*context_, options.variables));
  require_memory(plan_, available_memory());
  if (session.plan_only) return;
  group_ = std::make_unique<TowerGroupBase>(
      *context_, config_.optimizer, [model, row, classes] { return model->build(row, classes); },
      options);
}

TrainSession::~TrainSession() = default;

std::shared_ptr<const Dataset> TrainSession::open(const DataSource& source,
                                                  const std::string& table) {
  std::shared_ptr<const Dataset> out = data_ ? source.factory->open_beside(config_.base, *data_)
                                             : source.factory->open(config_.base);
  if (data_ && out->class_names() != data_->class_names())
    throw DataError(ErrorText{.what = "[" + table + "] has other classes than [data]",
                              .found = listed(out->class_names()),
                              .expected = listed(data_->class_names()),
                              .fix = "give both the same list as `names`"});
  const ModelInput input = config_.model->input();
  check_fields(*out, table, config_.model_name, input);
  const auto shape_in = [&](const Dataset& set) { return find_field(set, input.field)->shape; };
  if (data_ && !(shape_in(*out) == shape_in(*data_)))
    throw DataError(ErrorText{.what = "[" + table + "] has other " + input.field + "s than [data]",
                              .found = shape_in(*out).text(),
                              .expected = shape_in(*data_).text()});
  if (data_ && out->classes() > data_->classes())
    throw DataError(ErrorText{.what = "[" + table + "] has more classes than [data]",
                              .found = std::to_string(out->classes()),
                              .expected = "at most " + std::to_string(data_->classes()),
                              .fix = "set data.classes"});
  context_->log("{}: {}{}", table, out->describe(),
                source.repeats ? "; rows that [data] trains on" : "");
  if (!data_ && !out->warning().empty()) context_->logger().warn("{}", out->warning());
  return out;
}

LossFn TrainSession::loss(const DataSource& source) const {
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
  if (!test_)
    throw ConfigError(ErrorText{.what = "the config has no table [test]",
                                .fix = "add one, e.g. [test] with images and labels"});
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
  Trainer out(
      *group_, *loader_,
      classifier_loss(config_.data.ignore, config_.model->input().field, config_.label_smoothing),
      std::move(options));
  for (const auto& hook : config_.hooks) out.add(hook);
  if (validation_) out.validation([this] { return evaluate_validation(); });
  return out;
}

}  // namespace belfry
