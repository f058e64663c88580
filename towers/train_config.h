// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "belfry/core/document.h"
#include "belfry/data/loader.h"
#include "belfry/data/options.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/hook.h"
#include "belfry/towers/model.h"

namespace belfry {

// One of the tables [data], [test], [validation] and [predict].
struct DataSource {
  std::string name;  // of the kind: "idx"
  std::shared_ptr<DatasetFactory> factory;
  std::vector<std::string> files;  // what it reads, as the config says; "" where nothing is named
  std::int64_t ignore = kNoLabel;  // label that does not count
  bool repeats = false;            // takes rows of [data]

  bool has_key(const std::string& key) const;  // whether its kind knows it: for advice
};

// A training run as its config file says. load() checks everything that can be known without
// reading data and throws one ConfigError with all faults.
struct TrainConfig {
  std::string towers = "cpu:1";
  std::int64_t threads_per_tower = 0;
  std::string precision = "f32";
  std::int64_t seed = 1;
  std::string output;  // relative to the working directory
  std::string variables = "shared";
  std::string transport = "auto";
  double timeout_seconds = 600;
  double exchange_delay = 0;
  std::int64_t check_replicas = 100;
  bool capture = false;
  std::int64_t check_capture = 100;
  double label_smoothing = 0;
  LoaderOptions loader;
  std::string model_name;
  std::shared_ptr<ModelFactory> model;
  DataSource data;
  std::optional<DataSource> test, validation, predict;
  Optimizer optimizer;
  std::vector<std::shared_ptr<Hook>> hooks;
  // Of the tables [checkpoint] and [early_stop]: a figure of the validation set, and whether more
  // of it is better. Which figures there are, the data says.
  struct Score {
    std::string metric = "auto", mode = "auto";
  };
  std::map<std::string, Score> scores;
  bool fallback = false;  // resume from an undamaged older checkpoint
  std::string base;       // the config file's folder: data paths are relative to it
  std::string effective;  // the whole config with all defaults, as TOML
  std::string described;  // the same with types, ranges and help
  std::shared_ptr<const Document> document;  // for the places of keys

  // Runs `f`. A ConfigError without a place gets one: that of the key it names in `table`, or where
  // it is taken from, else that of the table's name.
  void at_place(const std::string& table, const std::function<void()>& f) const;

  static TrainConfig load(Document document, const Registry& registry);
};

}  // namespace belfry
