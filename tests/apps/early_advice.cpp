// SPDX-License-Identifier: MIT
// What check and the start of a command find before any work, and whom the message blames.
#include "belfry/tests/apps/cli.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

CliResult ran(std::vector<std::string> arguments, int code,
              const std::vector<std::string>& assignments = {}) {
  for (const std::string& a : assignments) arguments.insert(arguments.end(), {"--set", a});
  CliResult result = run_cli(arguments);
  CAPTURE(result.out, result.err);
  CHECK(result.code == code);
  return result;
}

// Beside the set of classes, numbers.csv: 40 rows of 4 named columns with a price.
struct Folder : CliFolder {
  Folder() {
    std::string rows = "a,b,c,d,price\n";
    for (int r = 0; r < 40; ++r)
      rows += std::to_string(r % 7) + "," + std::to_string(r % 5) + "," + std::to_string(r % 3) +
              "," + std::to_string(r % 2) + "," + std::to_string(r % 4) + "\n";
    write_text(folder / "numbers.csv", rows);
    write_text(numbers(),
               "epochs = 1\nbatch = 10\noutput = \"" + numbers_out() +
                   "\"\n[model]\nname = \"mlp\"\nhidden = [8]\n[data]\nname = \"csv\"\nfile = "
                   "\"numbers.csv\"\ntargets = [\"price\"]\nstandardize = true\n[test]\n[predict]\n"
                   "[checkpoint]\n[optimizer]\nname = \"adam\"\n");
  }
  std::string numbers() const { return folder / "numbers.toml"; }
  std::string numbers_out() const { return folder / "numbers"; }
};

}  // namespace

TEST_CASE("figures that the data do not give are refused before training, with their place") {
  const Folder f;
  for (const char* const command : {"check", "train"}) {
    CHECK_THAT(ran({command, f.numbers()}, 2, {"checkpoint.metric=accuracy"}).err,
               Contains("--set: the validation reports will have no such figure as "
                        "checkpoint.metric names: found 'accuracy', expected 'loss' or 'mae': "
                        "[data] has numbers to be predicted"));
    CHECK_THAT(ran({command, f.path()}, 2, {"early_stop.metric=mae"}).err,
               Contains("early_stop.metric names: found 'mae', expected 'loss' or 'accuracy'"));
    CHECK_THAT(ran({command, f.numbers()}, 2, {"checkpoint.metric=mae", "checkpoint.mode=max"}).err,
               Contains("checkpoint.mode takes the worst for the best: found 'max' of 'mae', "
                        "expected 'min' or 'auto'"));
    CHECK_THAT(ran({command, f.numbers()}, 2, {"checkpoint.mode=max"}).err,
               Contains("found 'max' of 'loss'"));
    CHECK_THAT(ran({command, f.path()}, 2, {"checkpoint.mode=min"}).err,
               Contains("found 'min' of 'accuracy'"));
  }
  f.config("", "", "[checkpoint]\nmetric = \"mae\"");
  CHECK_THAT(ran({"check", f.path()}, 2).err, Contains("run.toml:18:1: the validation reports"));
  CHECK(f.untouched());
  ran({"check", f.numbers()}, 0, {"checkpoint.metric=mae", "checkpoint.mode=min"});
}

TEST_CASE("check --resume refuses what train --resume would, and warns of nothing to resume") {
  const Folder f;
  ran({"train", f.path()}, 0, {"epochs=1"});
  for (const char* const command : {"check", "train"})
    CHECK_THAT(ran({command, f.path(), "--resume"}, 6, {"optimizer.name=adam"}).err,
               Contains("the checkpoint does not fit: optimizer: 'momentum' in the checkpoint, "
                        "'adam' here"));
  CHECK_THAT(ran({"check", f.path(), "--resume"}, 6, {"model.hidden=[9]"}).err,
             Contains("variable 'head.weight'"));
  const CliResult part = ran({"check", f.path(), "--resume", "--partial"}, 0, {"model.hidden=[9]"});
  CHECK_THAT(part.err, Contains("partial load: variable 'head.weight'"));
  CHECK_THAT(part.out, Contains("8 updates left"));
  CHECK_THAT(ran({"check", f.path(), "--partial"}, 2).err, Contains("--partial needs --resume"));
  const std::string none = f.folder / "none";
  CHECK_THAT(ran({"check", f.path(), "--resume"}, 0, {"output=" + none}).err,
             Contains("warning: no checkpoint in '" + none +
                      "': training starts from the "
                      "beginning"));
  CHECK_FALSE(std::filesystem::exists(none));
}

TEST_CASE("--resume from another folder than the output's says so") {
  const Folder f;
  ran({"train", f.path()}, 0, {"epochs=1"});
  const std::string other = f.folder / "other";
  ran({"train", f.path()}, 0, {"epochs=1", "output=" + other});
  for (const char* const command : {"check", "train"})
    CHECK_THAT(ran({command, f.path(), "--resume", other}, 2).err,
               Contains("already holds a run, and --resume names a checkpoint of another: found "
                        "checkpoints in '" +
                        f.out() + "' beside --resume from '" + other + "/step_4'; set output = \"" +
                        other + "\" to go on there"));
}

TEST_CASE("eval and predict before any training say where a checkpoint is looked for") {
  const Folder f;
  for (const char* const command : {"eval", "predict"}) {
    CHECK_THAT(ran({command, f.numbers()}, 6).err,
               Contains(f.numbers_out() + " does not exist: it is the config's output folder, "
                                          "where the checkpoint is looked for; train first, or "
                                          "give --checkpoint PATH"));
    std::filesystem::create_directories(f.numbers_out());
    CHECK_THAT(ran({command, f.numbers()}, 6).err,
               Contains(f.numbers_out() + " holds no checkpoint: it is the config's"));
    std::filesystem::remove(f.numbers_out());
  }
}

TEST_CASE("a checkpoint of other data is blamed, not the config") {
  const Folder f;
  ran({"train", f.path()}, 0, {"epochs=1"});
  ran({"train", f.numbers()}, 0);
  const std::string fault = "the checkpoint was trained on other data than this config's [data]: ";
  const std::string fix =
      "; set that in [data], or name a checkpoint of this config by --checkpoint";
  for (const char* const command : {"eval", "predict"}) {
    CHECK_THAT(
        ran({command, f.numbers(), "--checkpoint", f.out()}, 6).err,
        Contains(fault +
                 "found standardize = true, targets = [\"price\"], expected standardize = false, "
                 "targets = [], as the checkpoint says") &&
            Contains(fix));
    CHECK_THAT(
        ran({command, f.path(), "--checkpoint", f.numbers_out()}, 6, {"predict.file=data.csv"}).err,
        Contains(fault +
                 "found standardize = false, targets = [], expected standardize = true, targets = "
                 "[\"price\"], as the checkpoint says") &&
            Contains(fix));
    CHECK_THAT(ran({command, f.numbers()}, 6, {"data.standardize=false"}).err,
               Contains("--set: " + fault +
                        "found standardize = false, expected standardize = true, as the"));
  }
  write_text(f.folder / "narrow.csv", "1,2,0\n2,3,1\n");
  CHECK_THAT(ran({"eval", f.path()}, 3, {"test.file=narrow.csv"}).err,
             Contains("[test] has other images than the data of the checkpoint") &&
                 Contains("or name a checkpoint of such rows by --checkpoint"));
}

TEST_CASE("models without variables, and items that a list has not") {
  const Folder f;
  const std::string layers = f.folder / "layers.toml";
  write_text(layers,
             "[model]\nname = \"layers\"\nlayers = [\"relu\", \"linear\"]\n[data]\nname = "
             "\"csv\"\nfile = \"data.csv\"\nfeatures = [0, 1, 2]\nlabel = 4\n");
  const auto with = [&](const std::string& assignment) {
    return ran({"check", layers}, 2, {assignment}).err;
  };
  CHECK_THAT(with("model.layers=[\"relu\"]"),
             Contains("error: --set: model 'layers' has nothing to train: found no variables") &&
                 !Contains("freeze"));
  const std::string two =
      ", expected the number of an item of the list 'model.layers', which has "
      "2 items, counted from 0\n";
  CHECK(with("model.layers.2=relu") == "error: --set: key 'model.layers.2': found item 2" + two);
  CHECK(with("model.layers.7.out=3") == "error: --set: key 'model.layers.7': found item 7" + two);
  CHECK(with("model.layers.x=1") ==
        "error: --set: key 'model.layers.x': found 'x', expected the number of an item of the "
        "list 'model.layers', counted from 0\n");
  CHECK(with("model.layers.x.out=1") == "error: --set: key 'model.layers.x': found 'x'" + two);
  ran({"check", layers}, 0, {"model.layers.0=tanh"});
  CHECK_THAT(ran({"check", f.path()}, 2, {"optimizer.freeze=[\"*\"]"}).err,
             Contains("--set: optimizer.freeze leaves nothing to train"));
}

TEST_CASE("schedules that do not fit the run or their warm-up") {
  const Folder f;  // 12 updates
  const auto with = [&](const std::string& schedule, int code) {
    return ran({"check", f.path()}, code, {"schedule={" + schedule + "}"}).err;
  };
  CHECK_THAT(
      with("warmup = \"100u\"", 0),
      Contains("warning: schedule.warmup takes 100 updates, and the run ends with update 12: "
               "it never has the base rate"));
  CHECK_THAT(with("warmup = \"3e\"", 0), Contains("takes 12 updates"));
  CHECK(with("warmup = \"11u\"", 0).empty());
  for (const std::string name : {"cosine", "linear", "polynomial", "one_cycle"}) {
    const std::string start = "name = \"" + name + "\", warmup = \"";
    CHECK_THAT(with(start + "9u\", over = \"2u\"", 2),
               Contains("over = \"2u\" ends before the warm-up of \"9u\" that it includes"));
    CHECK_THAT(with(start + "2e\", over = \"5u\"", 2), Contains("over = \"5u\" ends before"));
    CHECK(with(start + "1e\", over = \"5u\"", 0).empty());
  }
  CHECK_THAT(with("name = \"wsd\", stable = \"3u\", decay = \"10u\"", 2),
             Contains("the fall takes 10 updates from update 3 on (stable = \"3u\", decay = "
                      "\"10u\"), and the run ends with update 12: make stable or decay shorter"));
  CHECK(with("name = \"wsd\", stable = \"3u\", decay = \"9u\"", 0).empty());
}

TEST_CASE("columns named twice, keys listed once, and a [predict] that is not there") {
  const Folder f;
  CHECK_THAT(ran({"check", f.numbers()}, 2, {"data.targets=[\"price\", \"price\"]"}).err,
             Contains("error: --set: key 'data.targets': it names 'price' twice\n"));
  CHECK_THAT(ran({"check", f.path()}, 2, {"data.features=[1, 0, 1]"}).err,
             Contains("key 'data.features': it names '1' twice"));
  const std::string unknown = ran({"check", f.numbers()}, 2, {"predict.nonsense=3"}).err;
  REQUIRE_THAT(unknown, Contains("ignore"));
  CHECK(unknown.find("ignore") == unknown.rfind("ignore"));
  CHECK_THAT(ran({"check", f.numbers()}, 3, {"predict.file=none.csv"}).err,
             Contains("none.csv: the data file does not exist"));
  CHECK(ran({"check", f.numbers()}, 0).err.empty());
  const CliResult late = ran({"train", f.numbers()}, 0, {"predict.file=none.csv"});
  CHECK_THAT(late.err, Contains("warning: [predict] names ") &&
                           Contains("none.csv, which does not exist: belfry predict will need it"));
}

TEST_CASE("rules over several keys name the place of the key they speak of") {
  const Folder f;
  for (const std::string key : {"transport=nccl", "precision=tf32"})
    CHECK_THAT(ran({"check", f.path()}, 2, {key}).err,
               Contains("error: --set: ") && Contains("needs towers on GPUs"));
  f.config("transport = \"nccl\"");
  CHECK_THAT(ran({"check", f.path()}, 2).err, Contains("run.toml:6:1: transport = \"nccl\""));
  f.config("", "", "");
  CHECK_THAT(ran({"check", f.path()}, 2, {"optimizer.clip=value"}).err,
             Contains("error: --set: [optimizer]: clip = \"value\" needs clip_limit"));
}

TEST_CASE("a result file that cannot be made is refused before any work") {
  const Folder f;
  if (!std::filesystem::is_directory("/proc/self")) return;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& flag) {
    arguments.insert(arguments.end(), {flag, "/proc/x.csv"});
    CHECK_THAT(ran(arguments, 2).err, Contains(flag + " /proc/x.csv cannot be written: found ") &&
                                          Contains("name a file"));
  };
  refused({"predict", f.numbers()}, "--to");
  refused({"eval", f.path()}, "--predictions");
  refused({"eval", f.path()}, "--confusion");
  refused({"bench", "step"}, "--json");
}
