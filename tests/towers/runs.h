// SPDX-License-Identifier: MIT
// Folders and training runs for tests of the trainer, its hooks and checkpoints.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "belfry/tests/catch.h"
#include "belfry/tests/lin.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/trainer.h"

namespace belfry::test {

// A folder of its own, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("belfry-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Every file below a folder and its content.
inline std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out[entry.path().string()] = read_text(entry.path().string());
  return out;
}

// A hook of the registry with some keys of its table.
inline std::shared_ptr<Hook> make_hook(const std::string& name, const std::string& keys = "") {
  return belfry::make_hook(builtin(), name, keys);
}

// Collects a log's messages.
struct Messages {
  std::string text;
  Log log() {
    return Log([this](LogLevel level, std::string_view line) {
      text += level == LogLevel::warn ? "warning: " : "";
      text += std::string(line) + "\n";
    });
  }
};

// LIN on towers, with a trainer's hooks.
struct LinRun {
  LinRun(int towers, std::int64_t epochs, Optimizer optimizer, std::int64_t rows = 8,
         std::int64_t batch = 8, const Log& log = {})
      : context({.towers = "cpu:" + std::to_string(towers),
                 .seed = 7,
                 .threads_per_tower = 1,
                 .log = log}),
        loader(context, lin_data(rows), {.batch = batch, .epochs = epochs, .shuffle = false}),
        group(context, std::move(optimizer), lin()) {}
  TrainResult train(TrainerOptions options, const std::vector<std::shared_ptr<Hook>>& hooks,
                    const LossFn& loss = lin_loss) {
    Trainer trainer(group, loader, loss, std::move(options));
    for (const auto& hook : hooks) trainer.add(hook);
    if (evaluate) trainer.validation(evaluate);
    return trainer.run();
  }
  double w() { return weight_of(group); }

  Context context;
  Loader loader;
  TowerGroupBase group;
  std::function<EvalReport()> evaluate;
};

}  // namespace belfry::test
