// SPDX-License-Identifier: MIT
// Models whose layers stand in the config.
#include "belfry/autodiff/layer.h"
#include "belfry/tests/apps/cli.h"
#include "belfry/towers/train_config.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

// A config around the lines of [model].
std::string with_model(const std::string& model) {
  return "[model]\nname = \"layers\"\n" + model + "\n[data]\nname = \"cifar\"\nfiles = [\"x\"]\n";
}

TrainConfig load(const std::string& model, const Registry& registry = builtin()) {
  return TrainConfig::load(Document::from_text(with_model(model), "run.toml"), registry);
}

std::string fault(const std::string& model) {
  try {
    load(model);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

std::string build_fault(const std::string& model, const Shape& image, std::int64_t classes) {
  const TrainConfig config = load(model);
  try {
    config.model->build(image, classes);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

const char* const kLenet = R"(layers = [
  {name = "conv2d", out = 6, kernel = 5, padding = 2, activation = "relu"}, "max_pool2d",
  {name = "conv2d", out = 16, kernel = 5}, "relu", "max_pool2d", "flatten",
  {name = "linear", out = 120, activation = "relu"},
  {name = "linear", out = 84, activation = "relu"}, "linear"])";

}  // namespace

TEST_CASE("a list of layers has the variables and shapes of the net it describes") {
  const auto net = load(kLenet).model->build({28, 28, 1}, 10);
  std::int64_t parameters = 0;
  std::vector<std::string> names;
  for (const Variable* v : net->variables()) {
    parameters += v->shape().size();
    names.push_back(v->name() + " " + v->shape().text());
  }
  CHECK(parameters == 61706);  // LeNet-5's
  CHECK(names == std::vector<std::string>{"layers.0.weight [6, 5, 5, 1]", "layers.0.bias [6]",
                                          "layers.2.weight [16, 5, 5, 6]", "layers.2.bias [16]",
                                          "layers.6.weight [120, 400]", "layers.6.bias [120]",
                                          "layers.7.weight [84, 120]", "layers.7.bias [84]",
                                          "layers.8.weight [10, 84]", "layers.8.bias [10]"});
}

TEST_CASE("shapes are checked before data is read, with line, layer, found and expected") {
  const std::string input = "input = [28, 28, 1]\n";
  CHECK(fault(input + kLenet).find("no error") == 0);
  CHECK_THAT(fault(input + "layers = [\n  \"flatten\",\n  {name = \"conv2d\"}]"),
             Contains("run.toml:6:4: key 'model.layers.1.name': layer 1 (conv2d): it takes images: "
                      "found [784], expected [rows, columns, channels]; put it before"));
  CHECK_THAT(
      fault(input + "layers = [{name = \"conv2d\", kernel = 31, padding = 1}]"),
      Contains("layer 0 (conv2d): its kernel of 31 does not fit the image: found [28, 28, 1], "
               "expected at least 29 x 29 pixels"));
  CHECK_THAT(fault(input + "layers = [\"linear\"]"),
             Contains("layer 0 (linear): it takes lists of values: found [28, 28, 1]") &&
                 Contains("put \"flatten\" before it"));
}

TEST_CASE("without `input` shapes are checked when the data's are known, with the same words") {
  CHECK_THAT(build_fault("layers = [\n\"max_pool2d\"]", {64}, 10),
             Contains("run.toml:4:1: layer 0 (max_pool2d): it takes images: found [64]"));
  CHECK_THAT(
      build_fault(kLenet, {10, 10, 1}, 10),
      Contains("run.toml:5:52: layer 4 (max_pool2d): its kernel of 2 does not fit the image: "
               "found [1, 1, 16], expected at least 2 x 2 pixels"));
  CHECK_THAT(build_fault("layers = [\"flatten\", {name = \"linear\", out = 84}]", {8}, 10),
             Contains("layer 1 (linear), the last one, does not give the classes: found [84], "
                      "expected [10], one value a class; end with"));
  CHECK_THAT(build_fault("input = [3]\nlayers = [\"linear\"]", {4}, 2),
             Contains("not the shape that model.input says: found [4], expected [3]"));
}

TEST_CASE("faults in a list come together, each with its line") {
  const std::string text = fault(
      "layers = [\n{name = \"conv2\", out = 3},\n{name = \"linear\", outs = 3, out = \"x\"},\n7,\n"
      "{out = 5}, {name = \"max_pool2d\", kernel = 3, padding = 2}]");
  CHECK_THAT(text, Contains("6 faults in the config"));
  CHECK_THAT(text, Contains("run.toml:4:2: key 'model.layers.0.name': ") &&
                       Contains("did you mean 'conv2d'?"));
  CHECK_THAT(text, Contains("run.toml:5:") && Contains("unknown key 'model.layers.1.outs'") &&
                       Contains("did you mean 'out'?"));
  CHECK_THAT(text, Contains("key 'model.layers.1.out': found string \"x\""));
  CHECK_THAT(text,
             Contains("run.toml:6:1: key 'model.layers.2': found integer 7, expected a table"));
  CHECK_THAT(text,
             Contains("run.toml:7:1: key 'model.layers.3.name': missing: expected the name of a "
                      "layer, one of avg_pool2d, batch_norm, conv2d"));
  CHECK_THAT(text, Contains("[model.layers.4]: padding: found 2, expected at most kernel / 2 = 1"));
  CHECK_THAT(fault(""), Contains("key 'model.layers': missing: expected a list"));
  CHECK_THAT(fault("layers = \"relu\""), Contains("found string \"relu\", expected a list"));
  CHECK_THAT(fault("layers = []"), Contains("missing: expected a list"));
}

TEST_CASE("tables in double brackets and --set reach a list's keys; the dump reads back") {
  Document document = Document::from_text(
      with_model(
          "[[model.layers]]\nname = \"flatten\"\n[[model.layers]]\nname = \"linear\"\nout = 9"),
      "run.toml");
  document.set("model.layers.1.out=5");
  const TrainConfig config = TrainConfig::load(std::move(document), builtin());
  CHECK(config.model->build({2, 2, 1}, 5)->variables()[0]->shape() == Shape{5, 4});
  CHECK_THAT(config.effective, Contains("[model.layers.1]\nname = \"linear\"\nout = 5\n"));
  const TrainConfig again =
      TrainConfig::load(Document::from_text(config.effective, "dump.toml"), builtin());
  CHECK(again.effective == config.effective);
  CHECK(again.model->build({2, 2, 1}, 5)->variables().size() == 2);
}

TEST_CASE("a program's own layer is known by its name") {
  Registry registry = builtin();
  registry.table<LayerEntry>().add(
      "twice", pointwise_layer([](const Tensor& x) { return x; }, "for this test"));
  CHECK(
      load("layers = [\"twice\", \"linear\"]", registry).model->build({3}, 2)->variables().size() ==
      2);
  CHECK_THAT(fault("layers = [\"twice\", \"linear\"]"), Contains("'twice'"));
}

TEST_CASE("a list of layers trains, resumes and is evaluated by the command") {
  const CliFolder f;
  const std::string layers =
      "model.layers=[\"tanh\", {name=\"linear\", out=8}, \"gelu\", \"sigmoid\", \"linear\"]";
  write_text(f.path(), "towers = \"cpu:2\"\nbatch = 16\nepochs = 2\noutput = \"" + f.out() +
                           "\"\n[model]\nname = \"layers\"\n[data]\nname = \"csv\"\nfile = "
                           "\"data.csv\"\n[test]\n[optimizer]\nname = \"adam\"\nlr = 0.05\n");
  const CliResult train = run_cli({"train", f.path(), "--set", layers});
  CAPTURE(train.err);
  CHECK(train.code == 0);
  CHECK_THAT(train.out, Contains("model layers: 67 parameters in 4 variables"));
  const CliResult more =
      run_cli({"train", f.path(), "--set", layers, "--set", "epochs=60", "--resume"});
  CAPTURE(more.err, more.out);
  CHECK(more.code == 0);
  CHECK_THAT(more.out, Contains("trained 232 updates"));
  CHECK_THAT(run_cli({"eval", f.path(), "--set", layers}).out, Contains("accuracy 1.0000"));
}
