// SPDX-License-Identifier: MIT
// Residual nets: sizes, names, and that they train.
#include <algorithm>
#include <map>

#include "belfry/autodiff/state.h"
#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/data/memory.h"
#include "belfry/tests/catch.h"
#include "belfry/towers/group.h"
#include "belfry/towers/model.h"
#include "belfry/towers/session.h"

using namespace belfry;
using Catch::Matchers::Contains;

namespace {

std::unique_ptr<Classifier> build(const std::string& name, const Shape& image,
                                  std::int64_t classes) {
  return builtin().table<ModelEntry>().at(name, "model").make()->build(image, classes);
}

std::int64_t parameters(const Module& m) {
  std::int64_t n = 0;
  for (const Variable* v : m.variables()) n += v->shape().size();
  return n;
}

// Images of 3 channels with a bright corner that tells the class.
std::shared_ptr<const Dataset> corners(std::int64_t rows, std::int64_t side) {
  const Philox philox = philox_key(8, Purpose::test);
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    y.push_back(static_cast<std::int32_t>(r % 4));
    for (std::int64_t i = 0; i < side * side * 3; ++i) {
      const bool low = i / 3 / side >= side / 2, right = i / 3 % side >= side / 2;
      const bool bright = (low ? 2 : 0) + (right ? 1 : 0) == y.back();
      const auto w = philox(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(i), 0, 0);
      x.push_back(unit_float(w.v[0]) - 0.5f + (bright ? 0.5f : 0.f));
    }
  }
  return memory_dataset(std::move(x), {side, side, 3}, std::move(y), 4);
}

}  // namespace

TEST_CASE("residual nets have the published numbers of parameters and torchvision's names") {
  // With projection shortcuts; those of ImageNet are torchvision's.
  const std::map<std::string, std::int64_t> small{
      {"resnet20", 272474}, {"resnet32", 466906}, {"resnet56", 855770}};
  for (const auto& [name, count] : small) {
    INFO(name);
    CHECK(parameters(*build(name, {32, 32, 3}, 10)) == count);
  }
  CHECK(parameters(*build("resnet18", {224, 224, 3}, 1000)) == 11689512);
  const auto fifty = build("resnet50", {224, 224, 3}, 1000);
  CHECK(parameters(*fifty) == 25557032);
  std::vector<std::string> names;
  for (const Variable* v : fifty->variables()) names.push_back(v->name());
  for (const ModuleState* s : fifty->states())
    names.insert(names.end(), {s->name(), s->second_name()});
  CHECK(names.size() == 161 + 2 * 53);
  for (const char* name : {"conv1.weight", "bn1.running_var", "layer1.0.downsample.0.weight",
                           "layer1.0.downsample.1.running_mean", "layer4.2.conv3.weight",
                           "layer4.2.bn3.bias", "fc.bias"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
}

TEST_CASE("residual nets refuse images that are too small for them") {
  CHECK_THROWS_WITH(build("resnet20", {7, 32, 3}, 10),
                    Contains("resnet20") && Contains("[7, 32, 3]") && Contains("8 x 8"));
  CHECK_THROWS_WITH(build("resnet50", {28, 28, 1}, 10), Contains("32 x 32"));
  CHECK_THROWS_WITH(build("resnet18", {784}, 10), Contains("[784]"));
}

TEST_CASE("each kind of residual net learns four classes of images, on two towers", "[slow]") {
  struct Plan {
    const char* name;
    std::int64_t side;
    int updates;
  };
  // The large ones see one batch a few times; over 8 rows of 1 x 1 pixels their loss jumps about.
  for (const Plan& plan :
       {Plan{"resnet20", 8, 30}, Plan{"resnet18", 32, 8}, Plan{"resnet50", 32, 8}}) {
    INFO(plan.name);
    const bool small = plan.updates == 30;
    Context context({.towers = "cpu:2", .seed = 2, .threads_per_tower = 1});
    Loader loader(context, corners(32, plan.side), {.batch = 16, .epochs = 100});
    TowerGroupBase group(context, momentum({.lr = small ? 0.05 : 0.003}), [&] {
      return build(plan.name, {plan.side, plan.side, 3}, 4);
    });
    Batch batch;
    REQUIRE(loader.next(batch));
    double first = 0, last = 0, least = 1e9;
    for (int k = 0; k < plan.updates; ++k) {
      last = group.step(batch, classifier_loss()).loss();
      if (k == 0) first = last;
      if (k > 0) least = std::min(least, last);
      if (small) REQUIRE(loader.next(batch));
    }
    CHECK(least < first);
    if (!small) continue;
    CHECK(last <= 0.1);
    Loader all(context, corners(32, plan.side), {.batch = 16, .epochs = 1, .shuffle = false});
    CHECK(group.evaluate(all, classifier_loss()).metrics.at("accuracy") >= 0.9);
  }
}
