// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "belfry/core/error.h"
#include "belfry/data/data_record.h"
#include "belfry/towers/memory_plan.h"
#include "belfry/towers/train_config.h"
#include "belfry/towers/trainer.h"

namespace belfry {

class Opening;

struct SessionOptions {
  bool log_placement = false;
  bool plan_only = false;  // no group: nothing is allocated for the model
  // What a checkpoint knows of [data], which then is not read: for evaluation. rows 0: nothing.
  DataRecord saved{};
  bool predict = false;  // opens [predict], whose rows need no labels, and not [test]
};

// What a config becomes: devices, data, model, group. Built from the outside in, so that whatever
// is wrong is thrown before anything is written. Owns everything. One thread.
class TrainSession {
 public:
  TrainSession(TrainConfig config, const Log& log, SessionOptions options = {});
  ~TrainSession();

  const TrainConfig& config() const { return config_; }
  Context& context() { return *context_; }
  TowerGroupBase& group() { return *group_; }
  const MemoryPlan& plan() const { return plan_; }
  Loader& loader() { return *loader_; }
  const Dataset& data() const { return *data_; }
  std::shared_ptr<const Dataset> first_row() const { return subset(data_, 0, 1); }
  Trainer trainer(TrainerOptions options);
  LossFn loss(const DataSource& source) const;  // of the config's model on one of its tables
  bool has_test() const { return config_.test.has_value(); }
  // Loss and accuracy over a whole set. Throws ConfigError where the config has no such table.
  EvalReport evaluate_test(bool ema = false);
  EvalReport evaluate_validation(bool ema = false);
  std::shared_ptr<const Dataset> test_data();
  std::shared_ptr<const Dataset> predict_data() const { return predict_; }
  // Whether rows have numbers to be predicted, field "target", in place of class labels.
  bool regression() const;
  // Opens [predict] and throws what is wrong with it; nothing where the config has none.
  void try_predict() {
    if (config_.predict) open(*config_.predict, "predict");
  }

 private:
  std::shared_ptr<const Dataset> open(const DataSource& source, const std::string& table,
                                      Opening* opening = nullptr);
  // The rows of a table as they are; its factory is not called by anybody else at the same time.
  std::shared_ptr<const Dataset> read(const DataSource& source, const std::string& table,
                                      const Dataset* beside) const;
  EvalReport evaluate(const std::shared_ptr<const Dataset>& data, const DataSource& source,
                      bool ema);
  void open_all(const DataRecord& saved, bool predict);
  std::int64_t outputs() const;  // of the model: classes, or numbers a row
  void check_extra(const Dataset& extra, const std::string& table) const;
  void plan(const Shape& row, std::int64_t classes, Variables variables);
  void check_passes(const Shape& row, std::int64_t classes) const;
  void check_patterns() const;
  void check_recorded(const DataRecord& saved) const;
  void check_scores() const;
  void check_schedule(const Clock& clock) const;
  void check_strict() const;
  std::string smaller() const;

  TrainConfig config_;
  bool recorded_ = false;  // data_ is what a checkpoint knows of [data]
  std::unique_ptr<Context> context_;
  std::shared_ptr<const Dataset> data_, test_, validation_, predict_;
  std::unique_ptr<Loader> loader_;
  MemoryPlan plan_;
  std::unique_ptr<TowerGroupBase> group_;  // null with plan_only
};

// That a config has no table [test], where one is needed.
ConfigError no_test();

// Cross-entropy and the figure "accuracy" of a Classifier on fields `field` and "label". Label
// smoothing is for training: evaluation measures without.
LossFn classifier_loss(std::int64_t ignore = kNoLabel, const std::string& field = "image",
                       double smoothing = 0);
// Mean squared error and the figure "mae" of a model on fields `field` and "target".
LossFn regression_loss(const std::string& field = "image");

}  // namespace belfry
