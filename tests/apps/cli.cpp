// SPDX-License-Identifier: MIT
#include "belfry/tests/apps/cli.h"

#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "belfry/apps/cli/signals_internal.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/towers/model.h"
#include "belfry/version.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("train, eval, inspect and check work on one config") {
  const CliFolder f;
  const CliResult train =
      run_cli({"train", f.path(), "--set", "epochs=30", "--set", "log.every=40"});
  CAPTURE(train.out, train.err);
  CHECK(train.code == 0);
  CHECK(train.err.empty());
  CHECK_THAT(train.out, Contains("2 towers on cpu, 1 thread each") &&
                            Contains("4 updates an epoch, 30 epochs") &&
                            Contains("epoch 10/30 update 40/120 loss ") &&
                            Contains("trained 120 updates, 1800 rows") && Contains("test: loss ") &&
                            Contains("accuracy 1.0000 (60 rows"));
  const CliResult eval = run_cli({"eval", f.path(), "--predictions", f.folder / "p.csv"});
  CAPTURE(eval.err);
  CHECK(eval.code == 0);
  CHECK_THAT(eval.out, Contains("step_120 at update 120") && Contains("accuracy 1.0000"));
  const std::vector<std::string> predictions = lines_of(read_text(f.folder / "p.csv"));
  REQUIRE(predictions.size() == 61);
  CHECK(predictions[0] == "row,label,prediction,probability");
  for (int r = 0; r < 60; ++r) {
    const std::string label = std::to_string(r % 3);
    CHECK_THAT(predictions[static_cast<std::size_t>(r + 1)],
               Catch::Matchers::StartsWith(std::to_string(r) + "," + label + "," + label + ",0.") ||
                   Contains("," + label + "," + label + ",1.000000"));
  }
  const CliResult inspect = run_cli({"inspect", f.out()});
  CHECK(inspect.code == 0);
  CHECK_THAT(inspect.out, Contains("update 120, 1800 rows trained") &&
                              Contains("hidden.0.weight") && Contains("[8, 4]") &&
                              Contains("velocity/head.bias") && Contains("optimizer momentum"));
  CHECK_THAT(run_cli({"inspect", f.out() + "/step_120/model.safetensors"}).out,
             Contains("4 tensors"));
  const CliResult check = run_cli({"check", f.path(), "--resume"});
  CHECK(check.code == 0);
  CHECK_THAT(check.out, Contains("global batch 16: shards 8 8") &&
                            Contains("last batch of an epoch 12: shards 6 6") &&
                            Contains("updates per epoch 4, in total 12") && Contains("velocity"));
}

TEST_CASE("--resume goes on, --towers and --set overlay the file, a second fresh run is refused") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path()}).code == 0);
  const CliResult again = run_cli({"train", f.path()});
  CHECK(again.code == 2);
  CHECK_THAT(again.err, Contains("already holds a run"));
  const CliResult more =
      run_cli({"train", f.path(), "--towers", "cpu:3", "--set", "epochs=5", "--resume"});
  CHECK(more.code == 0);
  CHECK_THAT(more.out, Contains("towers 2 -> 3, global batch 16 (unchanged)") &&
                           Contains("trained 8 updates"));
  const CliResult done =
      run_cli({"train", f.path(), "--set", "epochs=5", "--resume", f.out() + "/step_20"});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("training is complete: 5 epochs"));
  const CliResult other =
      run_cli({"train", f.path(), "--set", "epochs=9", "--resume", "--set", "optimizer.name=adam"});
  CHECK(other.code == 6);
  CHECK_THAT(other.err, Contains("'momentum' in the checkpoint, 'adam' here"));
}

TEST_CASE(
    "B16 unknown keys: all in one message with file, line, key and nearest name; nothing is "
    "written") {
  const CliFolder f;
  f.config("learning_rate = 0.1\nBatch = 3", "learning_rat = 0.5\nbeta2 = 0.9",
           "[optimiser]\nlr = 1");
  const CliResult result = run_cli({"train", f.path()});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("run.toml:6:1: unknown key 'learning_rate'") &&
                             Contains("run.toml:7:1: unknown key 'Batch'; did you mean 'batch'") &&
                             Contains("unknown key 'optimizer.learning_rat'") &&
                             Contains("unknown key 'optimizer.beta2'") &&
                             Contains("unknown table [optimiser]; did you mean [optimizer]?"));
  CHECK(f.untouched());
  const CliResult flag = run_cli({"train", f.path(), "--set", "optimizer.momentun=0.5"});
  CHECK_THAT(flag.err, Contains("--set") && Contains("did you mean 'momentum'"));
  CHECK(f.untouched());
}

TEST_CASE(
    "B31 and B32 wrong types and numbers out of range: exit 2 with the key; nothing is written") {
  const CliFolder f;
  for (const char* good : {"optimizer.lr=1", "optimizer.lr=1e-4", "batch=1_0", "batch=0x10"})
    CHECK(run_cli({"check", f.path(), "--set", good}).code == 0);
  const std::vector<std::pair<std::string, std::string>> faults{
      {"optimizer.lr=\"0.1\"", "optimizer.lr"},
      {"batch=8.0", "batch"},
      {"batch=8.5", "batch"},
      {"batch=\"8\"", "batch"},
      {"batch=8x", "batch"},
      {"loader.shuffle=1", "loader.shuffle"},
      {"loader.shuffle=\"false\"", "loader.shuffle"},
      {"optimizer.lr=0,1", "optimizer.lr"},
      {"model.hidden=8", "model.hidden"},
      {"batch=0", "batch"},
      {"batch=-8", "batch"},
      {"optimizer.lr=-0.1", "optimizer.lr"},
      {"optimizer.lr=nan", "optimizer.lr"},
      {"optimizer.lr=inf", "optimizer.lr"},
      {"optimizer.momentum=1.0", "optimizer.momentum"},
      {"optimizer.momentum=-0.1", "optimizer.momentum"},
      {"epochs=-1", "epochs"},
      {"towers=cpu:0", "towers"},
      {"towers=cpu:-1", "towers"},
      {"towers=cpu:1000000", "towers"},
      {"checkpoint.keep=0", "checkpoint.keep"},
      {"batch=9223372036854775808", "batch"},
      {"batch=9223372036854775807", "batch"},
      {"optimizer.reduce=exact", "optimizer.reduce"},
      {"model.name=mlpp", "did you mean 'mlp'"},
      {"data.name=cvs", "'csv'"},
      {"model.dropout=1.0", "model.dropout"},
      {"checkpoint.every=0", "checkpoint.every"},
      {"schedule.name=cosine", "over"}};
  for (const auto& [assignment, expected] : faults) {
    CAPTURE(assignment);
    const CliResult result = run_cli({"train", f.path(), "--set", assignment});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Catch::Matchers::StartsWith("error: ") && Contains(expected));
    CHECK(f.untouched());
  }
}

TEST_CASE("exit codes: usage 2, data 3, numbers 5, checkpoint 6, device 7; the folder stays away") {
  const CliFolder f;
  CHECK(run_cli({}).code == 2);
  CHECK(run_cli({"trai", f.path()}).code == 2);
  CHECK(run_cli({"train"}).code == 2);
  CHECK_THAT(run_cli({"train", f.folder / "none.toml"}).err, Contains("none.toml"));
  const CliResult data = run_cli({"train", f.path(), "--set", "data.file=nowhere.csv"});
  CHECK(data.code == 3);
  CHECK_THAT(data.err, Contains("nowhere.csv"));
  const CliResult device = run_cli({"train", f.path(), "--towers", "cuda:0"});
  CHECK(device.code == 7);
  CHECK_THAT(device.err, Contains("no CUDA"));
  CHECK(f.untouched());
  for (const char* set : {"transport=nccl", "precision=tf32"}) {
    const CliResult cpu = run_cli({"check", f.path(), "--set", set});
    CHECK(cpu.code == 2);
    CHECK_THAT(cpu.err, Contains("needs towers on GPUs"));
  }
  const CliResult blown = run_cli({"train", f.path(), "--set", "data.scale=5e-38"});
  CHECK(blown.code == 5);
  CHECK_THAT(blown.err, Contains("update "));
  const CliResult missing = run_cli({"eval", f.path(), "--checkpoint", f.folder / "nothing"});
  CHECK(missing.code == 6);
  CHECK(run_cli({"--version"}).out == std::string("belfry ") + kVersion + "\n");
  CHECK_THAT(run_cli({"--help"}).out, Contains("train") && Contains("Exit codes"));
}

TEST_CASE("B46 a pending signal: the update is finished, saved, exit 143; resuming goes on") {
  const CliFolder f;
  int asked = 0;
  const CliResult stopped = run_cli({"train", f.path()}, [&] { return ++asked > 5 ? 15 : 0; });
  CHECK(stopped.code == 143);
  CHECK_THAT(stopped.out, Contains("stopped: SIGTERM"));
  CHECK(list_checkpoints(f.out()) == std::vector<std::int64_t>{4, 5});
  CHECK_THAT(run_cli({"train", f.path(), "--resume"}).out, Contains("trained 7 updates"));
}

TEST_CASE("a signal during the last evaluation: it is finished, and the exit code tells") {
  const CliFolder f;
  std::string out;
  CliIo io;
  io.out = [&](std::string_view text) { out += text; };
  io.err = [](std::string_view) {};
  io.signal = [&] { return out.find("trained 12 updates") != out.npos ? 2 : 0; };
  CHECK(cli(builtin(), {"train", f.path()}, io) == 130);
  CHECK_THAT(out, Contains("test: loss "));
  CHECK(list_checkpoints(f.out()).back() == 12);
}

TEST_CASE("a watch for signals gives the handlers before it back") {
  static volatile std::sig_atomic_t mine = 0;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    mine = 0;
    std::signal(number, [](int n) { mine = n; });
    {
      const SignalWatch watch;
      std::raise(number);
      CHECK(SignalWatch::pending() == number);
      CHECK(mine == 0);
    }
    std::raise(number);
    CHECK(mine == number);
    std::signal(number, SIG_DFL);
  }
}

TEST_CASE("a limit on the size of files ends a run with one error instead of a signal") {
  const CliFolder f;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  CliResult result;
  {
    const SignalWatch watch;
    rlimit small = before;
    small.rlim_cur = 700;  // bytes
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    result = run_cli({"train", f.path()});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  }
  CHECK(result.code == 6);
  CHECK_THAT(result.err, Contains("File too large") && Contains(f.out()));
  CHECK(run_cli({"train", f.path(), "--resume"}).code == 0);
}

TEST_CASE("eval without --ema takes a checkpoint that has no averaged parameters") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path()}).code == 0);
  const CliResult plain = run_cli({"eval", f.path(), "--set", "optimizer.ema=0.9"});
  CAPTURE(plain.err);
  CHECK(plain.code == 0);
  const CliResult average = run_cli({"eval", f.path(), "--set", "optimizer.ema=0.9", "--ema"});
  CHECK(average.code == 6);
  CHECK_THAT(average.err, Contains("'ema/head.weight'"));
}

TEST_CASE("inspect shows a tensor of rank 8") {
  const TestFolder folder;
  const std::vector<float> values{3, 4};
  const std::vector<safetensors::Tensor> tensors{
      {"deep", "F32", {2, 1, 1, 1, 1, 1, 1, 1}, std::as_bytes(std::span(values))}};
  write_file_atomically(folder / "x.safetensors", safetensors::encode(tensors));
  const CliResult result = run_cli({"inspect", folder / "x.safetensors"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("[2, 1, 1, 1, 1, 1, 1, 1]") && Contains("norm 5"));
}

TEST_CASE("--print-config shows every key, and its output is a config that gives itself") {
  const CliFolder f;
  f.config("", "", "[validation]\nfile = \"more.csv\"\nevery = \"2e\"");
  const CliResult first =
      run_cli({"train", f.path(), "--print-config", "--set", "optimizer.momentum=0.5"});
  CHECK(first.code == 0);
  for (const char* part : {"momentum = 0.5", "[validation]", "every = \"2e\"", "[early_stop]",
                           "patience = 0", "delimiter = \",\""})
    CHECK_THAT(first.out, Contains(part));
  write_text(f.folder / "second.toml", first.out);
  CHECK(run_cli({"train", f.folder / "second.toml", "--print-config"}).out == first.out);
  CHECK(f.untouched());
}

TEST_CASE("a table of data takes from [data] what it does not say") {
  const CliFolder f;
  f.config("", "", "[validation]\nfirst = 40\ncount = 20");
  const CliResult result = run_cli({"train", f.path(), "--set", "data.count=40", "--set",
                                    "test.first=0", "--set", "test.count=-1"});
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("data: csv: 40 rows") && Contains("validation: csv: 20 rows") &&
                             Contains("test: csv: 60 rows") &&
                             Contains("validation at update 3: loss"));
}

TEST_CASE("a user's network gets the whole command by registry.model") {
  struct Net : Module {
    Linear head{*this, "head", 4, 3};
    Tensor forward(const Tensor& x) { return head(x); }
  };
  struct Sized : Module {
    Sized(const Shape& image, std::int64_t classes) : head(*this, "top", image.size(), classes) {}
    Tensor forward(const Tensor& x) { return head(x); }
    Linear head;
  };
  Registry registry = builtin();
  registry.model<Net>("mynet");
  registry.model<Sized>("sized");
  const CliFolder f;
  write_text(f.folder / "own.toml",
             "epochs = 30\nbatch = 16\n[model]\nname = \"mynet\"\n[data]\nname = \"csv\"\nfile = "
             "\"data.csv\"\n[test]\n");
  const CliResult result = run_cli(
      {"train", f.folder / "own.toml"}, [] { return 0; }, registry);
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out,
             Contains("model mynet: 15 parameters in 2 variables") && Contains("accuracy 1.0000"));
  CHECK_THAT(
      run_cli(
          {"check", f.folder / "own.toml", "--set", "model.name=sized"}, [] { return 0; }, registry)
          .out,
      Contains("top.weight"));
}

TEST_CASE("bench step and scaling write figures with their units") {
  const TestFolder folder;
  const CliResult step = run_cli(
      {"bench", "step", "--model", "softmax", "--updates", "3", "--json", folder / "s.json"});
  CHECK(step.code == 0);
  CHECK_THAT(step.out, Contains("best GEMM 512x512x512") && Contains("samples/s"));
  const auto json = nlohmann::json::parse(read_text(folder / "s.json"));
  CHECK(json.at("step_seconds").get<double>() > 0);
  CHECK(json.at("best_gemm_flop_per_second").get<double>() > 1e9);
  const CliResult scaling =
      run_cli({"bench", "scaling", "--model", "softmax", "--towers", "1,2", "--rounds", "1",
               "--updates", "3", "--json", folder / "w.json"});
  CHECK(scaling.code == 0);
  const auto points = nlohmann::json::parse(read_text(folder / "w.json")).at("points");
  REQUIRE(points.size() == 2);
  CHECK(points[0].at("efficiency_share") == 1.0);
  CHECK(points[1].at("towers") == 2);
  CHECK(points[1].at("independent_samples_per_second").get<double>() > 0);
}

TEST_CASE("devices lists this machine and says why there is no CUDA") {
  const CliResult result = run_cli({"devices"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("cpu: ") && Contains("cores") && Contains("cuda driver: ") &&
                             Contains("cuda plug-in: "));
}

TEST_CASE("--log-placement lists the ops of the first update, tower by tower, and no others") {
  const CliFolder f;
  const CliResult result = run_cli({"train", f.path(), "--set", "epochs=1", "--log-placement"});
  CHECK(result.code == 0);
  int cross_entropies = 0;
  for (const std::string& line : lines_of(result.out))
    if (line.find("cross_entropy on cpu:") != line.npos) ++cross_entropies;
  CHECK(cross_entropies == 2);
  CHECK_THAT(result.out, Contains("tower 1: linear on cpu:1, gradient on cpu:1, "));
  CHECK_THAT(run_cli({"check", f.path()}).out, !Contains("gradient on"));
}
