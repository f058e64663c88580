// SPDX-License-Identifier: MIT
// Faults that somebody met who had the README and data of his own.
#include "belfry/tests/apps/cli.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

CliResult failed(const std::vector<std::string>& arguments, int code = 2) {
  CliResult result = run_cli(arguments);
  CAPTURE(result.out, result.err);
  CHECK(result.code == code);
  return result;
}

}  // namespace

TEST_CASE("check and train try the output folder before data is read") {
  const CliFolder f;
  for (const char* const command : {"check", "train"}) {
    INFO(command);
    const std::vector<std::string> no_data{command, f.path(), "--set", "data.file=none.csv",
                                           "--set"};
    const auto with = [&](const std::string& set) {
      std::vector<std::string> out = no_data;
      out.push_back(set);
      return out;
    };
    const std::string file = f.folder / "data.csv";
    CHECK_THAT(failed(with("output=" + file), 6).err,
               Contains(file + ": the output folder cannot be used: found " + file +
                        ", which is no folder"));
    CHECK_THAT(failed(with("output=" + file + "/deep/out"), 6).err, Contains("which is no folder"));
    CHECK_THAT(failed(with("output=/proc/nothing/here"), 6).err,
               Contains("no right to write in /proc"));
    CHECK_THAT(failed(with("output=" + (f.folder / "a/b")), 3).err, Contains("none.csv"));
  }
  const auto before = contents(f.folder.path());
  CHECK(run_cli({"check", f.path()}).code == 0);
  CHECK(run_cli({"check", f.path(), "--set", "output=" + (f.folder / "a/b/c")}).code == 0);
  CHECK(contents(f.folder.path()) == before);
  CHECK(f.untouched());
  CHECK_FALSE(std::filesystem::exists(f.folder / "a"));
}

TEST_CASE("[validation] that reads training rows is an error with what to write") {
  const CliFolder f;
  const auto refused = [&](const std::string& validation, const std::string& data = "") {
    std::vector<std::string> arguments{"check", f.path()};
    if (!data.empty()) arguments.insert(arguments.end(), {"--set", data});
    f.config("", "", "[validation]\n" + validation);
    return failed(arguments).err;
  };
  const std::string text = "[validation]: it reads rows that [data] trains on; name other files";
  CHECK_THAT(refused("every = \"1e\""), Contains("run.toml:17:1") && Contains(text));
  CHECK_THAT(refused("first = 40"), Contains(text));  // [data] takes all rows
  CHECK_THAT(refused("first = 40", "data.count=41"), Contains(text));
  CHECK_THAT(refused("first = 0\ncount = 20", "data.first=19"), Contains(text));
  write_text(f.folder / "other.csv", "1,2,3,4,0\n1,2,3,5,1\n");
  const auto fine = [&](const std::string& validation, const std::string& data) {
    f.config("", "", "[validation]\n" + validation);
    const CliResult result = run_cli({"check", f.path(), "--set", data});
    CAPTURE(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  CHECK_THAT(fine("first = 40\ncount = -1", "data.count=40"), Contains("validation: csv: 20 rows"));
  CHECK_THAT(fine("first = 0\ncount = 20", "data.first=20"), Contains("data: csv: 40 rows"));
  CHECK_THAT(fine("file = \"other.csv\"", "data.first=0"), Contains("validation: csv: 2 rows"));
  // A [test] of the same rows is said, for it may be meant.
  CHECK_THAT(fine("file = \"other.csv\"", "data.first=0"),
             Contains("test: csv: 60 rows, image [4] f32, label i32, 3 classes; rows that [data] "
                      "trains on\n"));
}

TEST_CASE("log.jsonl stays in the output folder, apart from checkpoints and others' files") {
  const CliFolder f;
  for (const char* const path : {"../m.jsonl", "/tmp/m.jsonl", "a/../../m", ".", "logs/"})
    CHECK_THAT(failed({"check", f.path(), "--set", "log.jsonl=" + std::string(path)}).err,
               Contains("[log]: jsonl: found \"" + std::string(path) +
                        "\", expected a file in the output folder"));
  for (const char* const path : {"best/model.safetensors", "step_10/manifest.json", "./best"})
    CHECK_THAT(failed({"check", f.path(), "--set", "log.jsonl=" + std::string(path)}).err,
               Contains("expected a file outside the folders of checkpoints"));
  const std::string data = read_text(f.folder / "data.csv");
  const CliResult over = failed(
      {"train", f.path(), "--set", "log.jsonl=data.csv", "--set", "output=" + f.folder.path()});
  CHECK_THAT(over.err,
             Contains("log.jsonl names a file that holds something else") && Contains("data.csv"));
  CHECK(read_text(f.folder / "data.csv") == data);
  CHECK(run_cli({"train", f.path(), "--set", "log.jsonl=logs/m.jsonl"}).code == 0);
  CHECK_THAT(read_text(f.out() + "/logs/m.jsonl"), Contains("{\"update\":12,"));
}

TEST_CASE("an empty --towers is an error; towers are listed with the other faults") {
  const CliFolder f;
  CHECK_THAT(failed({"check", f.path(), "--towers", ""}).err,
             Contains("--towers: key 'towers': found \"\", expected \"cpu:N\""));
  CHECK_THAT(failed({"check", f.path(), "--towers", "a\"b"}).err, Contains("found \"a\"b\""));
  const std::string all = failed({"check", f.path(), "--towers", "2", "--set", "batch=0", "--set",
                                  "optimizer.lr=-1", "--set", "colour=3"})
                              .err;
  CHECK_THAT(all, Contains("4 faults in the config") && Contains("did you mean \"cpu:2\"?") &&
                      Contains("key 'batch'") && Contains("key 'optimizer.lr'") &&
                      Contains("unknown key 'colour'"));
}

TEST_CASE("a CSV column number out of range is called a number") {
  const CliFolder f;
  for (const char* const number : {"5", "-6", "99999999999999999999"})
    CHECK_THAT(
        failed({"check", f.path(), "--set", "data.label=\"" + std::string(number) + "\""}, 3).err,
        Contains("`label` is a column number out of range: found " + std::string(number) +
                 ", expected one in [-5, 4]: 5 columns"));
  CHECK_THAT(failed({"check", f.path(), "--set", "data.label=kind"}, 3).err,
             Contains("`label` names a column that is not there: found 'kind'"));
}

TEST_CASE("an unknown kind of data is one fault, with [test] and [validation] beside it") {
  const CliFolder f;
  f.config("", "", "[validation]\nfirst = 3");
  const std::string text = failed({"check", f.path(), "--set", "data.name=parquet"}).err;
  CHECK_THAT(text, Contains("unknown data set: found 'parquet'") && Contains("csv"));
  CHECK_THAT(text, !Contains("unknown table") && !Contains("faults in the config"));
}

TEST_CASE("advice to fall back is given where there is an older checkpoint to fall back to") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path()}).code == 0);
  const auto damage = [&](const std::string& step) {
    const std::string model = f.out() + "/" + step + "/model.safetensors";
    std::string bytes = read_text(model);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(model, bytes);
  };
  const std::vector<std::string> resume{"train", f.path(), "--resume", "--set", "epochs=4"};
  damage("step_12");
  CHECK_THAT(failed(resume, 6).err, Contains("step_12") && Contains("set checkpoint.fallback = "
                                                                    "true to take the next older"));
  damage("step_8");
  damage("step_4");
  std::vector<std::string> falling = resume;
  falling.insert(falling.end(), {"--set", "checkpoint.fallback=true"});
  const std::string last = failed(falling, 6).err;
  CHECK_THAT(last.substr(last.find("error:")),
             Contains("step_4") && Contains("there is no older checkpoint in the folder") &&
                 !Contains("checkpoint.fallback"));
}

TEST_CASE("classes that are words: trained, predicted and counted by their names") {
  const TestFolder folder;
  std::string rows = "size,kind\n";
  for (int r = 0; r < 60; ++r) rows += r % 2 == 0 ? "1,small one\n" : "-1,large\n";
  write_text(folder / "data.csv", rows);
  write_text(folder / "new.csv", "size\n-1\n1\n");
  write_text(folder / "run.toml",
             "epochs = 10\noutput = \"" + (folder / "out") +
                 "\"\n[model]\nname = \"softmax\"\n[data]\nname = \"csv\"\nfile = \"data.csv\"\n"
                 "names = [\"small one\", \"large\"]\n[test]\n[predict]\nfile = \"new.csv\"\n");
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, folder / "run.toml");
    return run_cli(arguments);
  };
  CHECK_THAT(run({"train"}).out, Contains("test: ") && Contains("accuracy 1.0000"));
  const std::string out = run({"predict"}).out;
  CHECK(out.starts_with("row,prediction,probability,name\n0,1,"));
  CHECK_THAT(out, Contains(",large\n1,0,") && Contains(",small one\n"));
  CHECK_THAT(run({"eval", "--confusion", "-"}).out, Contains("small one"));
  CHECK_THAT(run({"eval", "--set", "data.names=[\"large\", \"small one\"]"}).err,
             Contains("[test] has other classes than the data of the checkpoint: found 'large', "
                      "'small one', expected 'small one', 'large'"));
}

TEST_CASE("numbers too large to train on are named before the run, with the key that helps") {
  const TestFolder folder;
  std::string rows = "rooms,area,price\n";
  for (int r = 0; r < 40; ++r)
    rows += std::to_string(r % 5) + "," + std::to_string(100 + 10 * (r % 9)) + "," +
            std::to_string(100000 + r * 1000) + "\n";
  write_text(folder / "data.csv", rows);
  write_text(folder / "run.toml",
             "[model]\nname = \"mlp\"\n[data]\nname = \"csv\"\nfile = \"data.csv\"\ntargets = "
             "[\"price\"]\n");
  const auto err = [&](const std::string& set) {
    return run_cli({"check", folder / "run.toml", "--set", set}).err;
  };
  const std::string raw = err("batch=64");
  CHECK_THAT(raw,
             Contains("warning: column 'area' is as large as 1") &&
                 Contains("set data.standardize = true to bring it to a size of about 1") &&
                 Contains("warning: targets are as large as 1.2e+05: losses are in their unit"));
  CHECK(err("data.standardize=true").find("column") == std::string::npos);
  CHECK(err("data.scale=10000").find("area") == std::string::npos);
}

TEST_CASE("options that do not exist are named with the nearest that does") {
  const CliFolder f;
  CHECK_THAT(failed({"eval", f.path(), "--sample", "5", "--temp", "0.5"}).err,
             Contains("error: unknown option '--temp'; did you mean '--temperature'?\n"));
  CHECK_THAT(failed({"train", f.path(), "--resumee=x"}).err,
             Contains("unknown option '--resumee'; did you mean '--resume'?"));
  CHECK_THAT(
      failed({"check", f.path(), "-v"}).err,
      Contains("unknown option '-v'; options: --help, --set, --towers, --resume, --partial"));
  CHECK_THAT(failed({"check", f.path(), "more", "words"}).err,
             Contains("no one asked for: more, words"));
}

TEST_CASE("one value where a list belongs: how it is written") {
  const CliFolder f;
  CHECK_THAT(failed({"check", f.path(), "--set", "model.hidden=64"}).err,
             Contains("found integer 64, expected list of integers in [1, 1000000]; write it as a "
                      "list: hidden = [64]\n"));
  CHECK_THAT(failed({"check", f.path(), "--set", "data.features=a"}).err,
             Contains("write it as a list: features = [\"a\"]"));
  CHECK_THAT(failed({"check", f.path(), "--set", "epochs=5.0"}).err,
             Contains("found float 5.0, expected integer in [0, 1000000000]; write it without a "
                      "point: epochs = 5\n"));
  CHECK(failed({"check", f.path(), "--set", "epochs=5.5"}).err.find("point") == std::string::npos);
  CHECK(failed({"check", f.path(), "--set", "model.hidden=[0]"}).err.find("as a list") ==
        std::string::npos);
}

TEST_CASE("one file is split by a count in [data] and a first in the others") {
  const CliFolder f;
  f.config("", "", "[validation]\nfirst = 50\n");
  const std::vector<std::string> split{"check",         f.path(), "--set",
                                       "data.count=50", "--set",  "test.count=10"};
  const CliResult run = run_cli(split);
  CAPTURE(run.out, run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("data: csv: 50 rows") && Contains("validation: csv: 10 rows") &&
                          Contains("test: csv: 10 rows"));
}

TEST_CASE("check says of an old run last, when all else is right") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path()}).code == 0);
  const CliResult run = run_cli({"check", f.path()});
  CHECK(run.code == 2);
  CHECK_THAT(run.out, Contains("updates per epoch"));
  CHECK_THAT(run.err, Contains("already holds a run"));
  CHECK_THAT(failed({"check", f.path(), "--set", "data.label=9"}, 3).err,
             Contains("`label` is a column number out of range"));
}

TEST_CASE("a label column with almost as many classes as rows is asked about") {
  const TestFolder folder;
  std::string rows = "id,x,y\n";
  for (int r = 0; r < 30; ++r)
    rows += std::to_string(r) + "," + std::to_string(r % 3) + "," + std::to_string(r % 2) + "\n";
  write_text(folder / "data.csv", rows);
  write_text(folder / "run.toml",
             "[model]\nname = \"mlp\"\n[data]\nname = \"csv\"\nfile = \"data.csv\"\n");
  CHECK_THAT(run_cli({"check", folder / "run.toml", "--set", "data.label=id"}).err,
             Contains("warning: 30 classes in 30 rows: is that the right label?"));
  CHECK(run_cli({"check", folder / "run.toml"}).err.empty());
}
