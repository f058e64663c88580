// SPDX-License-Identifier: MIT
// What the command says to a user's mistakes, and that it says so before the work.
#include <algorithm>
#include <limits>
#include <set>
#include <sstream>

#include "belfry/core/error.h"
#include "belfry/tests/apps/cli.h"
#include "belfry/towers/memory_plan.h"
#include "belfry/towers/model.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

std::string refused(const std::vector<std::string>& arguments, int code = 2) {
  const CliResult result = run_cli(arguments);
  CAPTURE(result.out, result.err);
  CHECK(result.code == code);
  return result.err;
}

}  // namespace

TEST_CASE("unknown commands name the nearest one and all of them") {
  CHECK(refused({"trian"}) ==
        "error: unknown command 'trian'; did you mean 'train'? Commands: train, eval, predict, "
        "check, devices, inspect, bench\n");
  CHECK_THAT(refused({}), Contains("no command is given") && Contains("Commands: train, eval"));
  CHECK_THAT(refused({"bench", "scalling"}), Contains("did you mean 'scaling'?"));
  CHECK(run_cli({"bench", "--help"}).code == 0);
}

TEST_CASE("impossible models are refused with both numbers before anything is allocated") {
  const CliFolder f;
  for (const char* command : {"check", "train"}) {
    const std::string text =
        refused({command, f.path(), "--set", "model.hidden=[1000000,1000000]"});
    CHECK_THAT(text, Contains("GiB for 1000009000003 parameters on 2 towers") &&
                         Contains("hidden.1.weight") && Contains("model.hidden") &&
                         Contains("available"));
    CHECK_THAT(refused({command, f.path(), "--set", "data.classes=2147483647", "--set",
                        "model.hidden=[1000]"}),
               Contains("head.weight") && Contains("data.classes"));
  }
  CHECK(f.untouched());
}

TEST_CASE("the memory plan counts parameters, state, gradients, mean and ema") {
  const auto model = builtin().table<ModelEntry>().at("softmax", "model").make();
  const auto module = model->build(Shape{10}, 3);  // 33 parameters
  const MemoryPlan one = plan_memory(*module, sgd({.lr = 0.1}), 1, Variables::shared);
  CHECK(one.parameters == 33);
  CHECK(one.total() == 4 * 33 * 2);
  Optimizer with_ema = momentum({.lr = 0.1, .momentum = 0.9});
  with_ema.ema = 0.9;
  const MemoryPlan many = plan_memory(*module, with_ema, 4, Variables::replicated);
  CHECK(many.total() == 4 * 33 * (4 + 1 + 1 + 4 + 4 + 1));  // received, too
  const MemoryPlan strict = plan_memory(*module, sgd({.lr = 0.1}).strict(8), 2, Variables::shared);
  CHECK(strict.total() == 4 * 33 * (1 + 2 * 3 + 1));  // 4 leaves a tower: 3 sums at most
  require_memory(many, many.total(), "");
  CHECK_THROWS_AS(require_memory(many, many.total() - 1, ""), ConfigError);
  CHECK(available_memory() > 1 << 20);
  // Rules call their states "mean" and "square" as well.
  for (const std::string& rule : builtin().table<RuleEntry>().names()) {
    Optimizer o = sgd({.lr = 0.1}).accumulating(2).with_statistics(Statistics::squares);
    o.rule = builtin().table<RuleEntry>().at(rule, "rule").make();
    o.ema = 0.9;
    std::set<std::string> kinds;
    const MemoryPlan plan = plan_memory(*module, o, 4, Variables::replicated);
    for (const MemoryPlan::Line& line : plan.lines) kinds.insert(line.kind);
    CHECK(kinds.size() == plan.lines.size());
  }
}

TEST_CASE("flags without effect are refused") {
  const CliFolder f;
  CHECK_THAT(refused({"train", f.path(), "--partial"}), Contains("--partial needs --resume"));
  CHECK_THAT(refused({"train", f.path(), "--resume", "--set", "output=\"\""}),
             Contains("--resume needs an output folder"));
  CHECK_THAT(refused({"train", f.path(), "--towers", "2"}),
             Contains("--towers: key 'towers'") && Contains("did you mean \"cpu:2\"?"));
  CHECK_THAT(refused({"train", f.path(), "--set", "towers=\"2\""}),
             Contains("did you mean \"cpu:2\"?"));
  CHECK(f.untouched());
}

TEST_CASE("keys of other plug-ins name their owner; near names include prefixes") {
  const CliFolder f;
  CHECK_THAT(refused({"check", f.path(), "--set", "model.name=softmax"}),
             Contains("'hidden' belongs to model 'mlp'"));
  CHECK_THAT(refused({"check", f.path(), "--set", "optimizer.name=sgd", "--set",
                      "optimizer.momentum=0.5"}),
             Contains("'momentum' belongs to optimizers momentum, nesterov, rmsprop"));
  CHECK_THAT(refused({"check", f.path(), "--set", "batchsize=3"}),
             Contains("did you mean 'batch'?"));
  CHECK_THAT(refused({"check", f.path(), "--set", "model.hidden=[0]"}),
             Contains("--set: key 'model.hidden'"));
  CHECK_THAT(refused({"check", f.path(), "--set", "optimizer.clip=value"}),
             Contains("clip = \"value\" needs clip_limit"));
  CHECK(run_cli({"check", f.path(), "--set", "data.label=4", "--set", "data.features=[0, 1, 2, 3]"})
            .code == 0);
}

TEST_CASE("what hooks cannot do is found before data is read") {
  const CliFolder f;
  const std::vector<std::string> no_data{"train", f.path(), "--set", "data.file=none.csv", "--set"};
  const auto text = [&](const std::string& set) {
    std::vector<std::string> arguments = no_data;
    arguments.push_back(set);
    return refused(arguments);
  };
  CHECK_THAT(text("checkpoint.every=0u"), Contains("'checkpoint.every': found '0u'"));
  CHECK_THAT(text("early_stop.patience=2"),
             Contains("'early_stop.patience': it needs a table [validation]"));
  CHECK_THAT(text("checkpoint.metric=f1"), Contains("checkpoint.metric") && Contains("'accuracy'"));
}

TEST_CASE("paths that are not there, and files of another kind, are named") {
  const CliFolder f;
  CHECK_THAT(refused({"inspect", f.folder / "none"}, 6), Contains("none does not exist"));
  CHECK_THAT(refused({"inspect", f.folder / "data.csv"}, 6),
             Contains("data.csv: not a .safetensors file"));
  CHECK_THAT(refused({"eval", f.path(), "--checkpoint", f.folder / "none"}, 6),
             Contains("none does not exist"));
}

TEST_CASE("classes without rows are a warning; other files do not inherit a range of rows") {
  const CliFolder f;
  write_text(f.folder / "gap.csv", "1,2,3,4,0\n1,2,3,5,7\n2,2,3,4,1\n1,2,2,4,2\n");
  f.config("", "", "[validation]\nfile = \"gap.csv\"\nclasses = 8");
  const CliResult gaps = run_cli({"check", f.path(), "--set", "data.file=gap.csv"});
  CHECK(gaps.code == 0);
  CHECK_THAT(gaps.err, Contains("warning: classes 3..6 have no rows; largest label 7 at ") &&
                           Contains("gap.csv:2; set `classes`"));
  const CliResult ranges = run_cli({"check", f.path(), "--set", "data.first=40", "--set",
                                    "data.classes=8", "--set", "epochs=1"});
  CAPTURE(ranges.err);
  CHECK(ranges.code == 0);
  CHECK_THAT(ranges.out, Contains("validation: csv: 4 rows") && Contains("test: csv: 20 rows"));
  CHECK_THAT(run_cli({"train", f.path(), "--set", "epochs=1", "--set", "data.classes=8"}).out,
             Contains("4 updates an epoch, 1 epoch\n"));
}

namespace {

// Every key of the effective config, "model.layers.0.out".
std::vector<std::string> keys_of(const std::string& config) {
  std::istringstream lines(run_cli({"train", config, "--print-config"}).out);
  std::vector<std::string> out;
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) table = line.substr(1, line.size() - 2) + ".";
    if (line.starts_with("#") || line.find(" = ") == line.npos) continue;
    out.push_back(table + line.substr(0, line.find(" = ")));
  }
  return out;
}

}  // namespace

TEST_CASE("a value of the wrong type is one fault, whatever follows from it") {
  const TestFolder folder;
  const std::string data =
      "[data]\nname = \"cifar\"\nfiles = [\"a\"]\nmean = [0.5, 0.4, 0.3]\n"
      "pad_crop = 2\nflip = true\n[test]\n[validation]\nfiles = [\"b\"]\n";
  const std::string rest =
      "[optimizer]\nname = \"adamw\"\nbeta2 = 0.9\n[schedule]\nname = \"cosine\"\nover = "
      "\"1e\"\n[checkpoint]\n[early_stop]\n";
  const std::vector<std::string> configs{
      "[model]\nname = \"layers\"\nlayers = [\"flatten\", {name = \"linear\", out = 3}]\n" + data +
          rest,
      "[[model.layers]]\nname = \"flatten\"\n[[model.layers]]\nname = \"linear\"\n[model]\nname "
      "= \"layers\"\n" +
          data + rest,
      "[model]\nname = \"gpt\"\nlayers = 2\n[data]\nname = \"text\"\nfiles = [\"a\"]\npart = "
      "\"train\"\n[test]\n[validation]\npart = \"validation\"\n" +
          rest,
      "[model]\nname = \"mlp\"\n[data]\nname = \"csv\"\nfile = \"a\"\ntargets = [\"p\"]\n[test]\n"
      "[validation]\nfile = \"b\"\n[predict]\nfile = \"c\"\n" +
          rest};
  for (const std::string& text : configs) {
    write_text(folder / "run.toml", text);
    std::vector<std::string> keys = keys_of(folder / "run.toml");
    REQUIRE(keys.size() > 40);
    if (text.find("\"layers\"") != text.npos) keys.push_back("model.layers");
    for (const std::string& key : keys)
      for (const char* const value : {"1979-05-27", "[[1]]"}) {
        const CliResult run =
            run_cli({"train", folder / "run.toml", "--print-config", "--set", key + "=" + value});
        CAPTURE(key, value, run.err);
        CHECK(run.code == 2);
        CHECK(run.err.starts_with("error: --set: key '" + key));
        CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
      }
  }
}
