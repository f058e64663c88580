// SPDX-License-Identifier: MIT
// The configs of apps/configs on real data, through the command.
#include <cstdlib>
#include <regex>

#include "belfry/tests/apps/cli.h"
#include "belfry/tests/real_data.h"

using namespace belfry;
using namespace belfry::test;

namespace {

std::string config_path(const std::string& name) {
  return std::string(BELFRY_SOURCE_DIR) + "/apps/configs/" + name + ".toml";
}

// Trains a config and returns the accuracy the command prints for the test set.
double test_accuracy(const std::string& name, std::vector<std::string> assignments) {
  const TestFolder folder;
  std::vector<std::string> arguments{"train", config_path(name)};
  assignments.push_back("output=" + (folder / "out"));
  assignments.push_back("log.every=1000");
  for (const std::string& a : assignments) arguments.insert(arguments.end(), {"--set", a});
  const CliResult result = run_cli(arguments);
  CAPTURE(result.err, result.out);
  REQUIRE(result.code == 0);
  std::smatch match;
  REQUIRE(
      std::regex_search(result.out, match, std::regex("test: loss [0-9.]+ accuracy ([0-9.]+) ")));
  return std::stod(match[1]);
}

// The files of MNIST as --set assignments; empty where the data is not there.
std::vector<std::string> mnist() {
  std::vector<std::string> out;
  for (const auto& [key, file] :
       std::vector<std::pair<std::string, std::string>>{{"data.images", "train-images-idx3"},
                                                        {"data.labels", "train-labels-idx1"},
                                                        {"test.images", "t10k-images-idx3"},
                                                        {"test.labels", "t10k-labels-idx1"}}) {
    const auto path = real_data("mnist/" + file + "-ubyte.gz");
    if (!path) return {};
    out.push_back(key + "=" + *path);
  }
  return out;
}

}  // namespace

TEST_CASE("every config is valid") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(BELFRY_SOURCE_DIR) + "/apps/configs")) {
    CAPTURE(entry.path().string());
    const CliResult result = run_cli({"train", entry.path().string(), "--print-config"});
    CAPTURE(result.err);
    CHECK(result.code == 0);
    ++count;
  }
  CHECK(count >= 6);
}

TEST_CASE("MNIST: softmax reaches 0.915 and mlp 0.975 on the test set", "[slow]") {
  const std::vector<std::string> files = mnist();
  if (files.empty()) return;
  CHECK(test_accuracy("mnist-softmax", files) >= 0.915);
  CHECK(test_accuracy("mnist-mlp", files) >= 0.975);
}

TEST_CASE("MNIST: lenet reaches 0.985 on the test set", "[slow]") {
  const std::vector<std::string> files = mnist();
  if (!files.empty()) CHECK(test_accuracy("mnist-lenet", files) >= 0.985);
}

TEST_CASE("digits: mlp reaches 0.96 on the test set, from CSV", "[slow]") {
  const auto train = real_data("digits8x8/optdigits-train.csv.gz"),
             test = real_data("digits8x8/digits.csv.gz");
  if (train && test)
    CHECK(test_accuracy("digits-mlp", {"data.file=" + *train, "test.file=" + *test}) >= 0.96);
}

TEST_CASE("digits: a list of layers reaches 0.965 on the test set", "[slow]") {
  const auto train = real_data("digits8x8/optdigits-train.csv.gz"),
             test = real_data("digits8x8/digits.csv.gz");
  if (train && test)
    CHECK(test_accuracy("digits-layers", {"data.file=" + *train, "test.file=" + *test}) >= 0.965);
}

TEST_CASE("Fashion-MNIST: lenet reaches 0.88 on the test set, in half the epochs of the config",
          "[slow]") {
  if (fashion_mnist("train-images-idx3-ubyte.gz"))
    CHECK(test_accuracy("fashion-lenet", {"epochs=3", "schedule.over=3e"}) >= 0.88);
}

TEST_CASE("CIFAR: resnet20 classifies 0.99 of its 4,000 training images, in evaluation mode",
          "[slow]") {
  const auto images = real_data("cifar10/data_batch_1_first4000.bin.gz");
  if (!images) return;
  if (std::getenv("BELFRY_LONG") == nullptr) {
    WARN("skipped: 20 epochs take two minutes and more; set BELFRY_LONG=1, as .ci/long does");
    return;
  }
  const std::string files = "files=[\"" + *images + "\"]";
  CHECK(test_accuracy("cifar10-resnet20", {"data." + files, "test." + files, "data.pad_crop=0",
                                           "data.flip=false", "epochs=20", "schedule.over=20e",
                                           "schedule.warmup=1e", "optimizer.lr=0.05"}) >= 0.99);
}
