// SPDX-License-Identifier: MIT
// What is found before training, with the place of the key at fault and advice that fits the data.
#include <atomic>
#include <chrono>
#include <thread>

#include "belfry/core/document.h"
#include "belfry/core/formats/npy.h"
#include "belfry/data/memory.h"
#include "belfry/device/cpu/precision.h"
#include "belfry/tests/apps/cli.h"
#include "belfry/tests/hex.h"
#include "belfry/towers/memory_plan.h"
#include "belfry/towers/session.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

CliResult ran(const std::vector<std::string>& arguments, int code) {
  CliResult result = run_cli(arguments);
  CAPTURE(result.out, result.err);
  CHECK(result.code == code);
  return result;
}

// A config of CSV rows in 4 columns with its own [model] and [data] keys, from line 5 on.
struct Config {
  explicit Config(const std::string& text) { write_text(path(), text); }
  std::string path() const { return csv.folder / "own.toml"; }
  CliFolder csv;
};

const char* const kTiny =
    "89504e470d0a1a0a0000000d4948445200000004000000040802000000269309290000001449444154789c6314e192"
    "638001260624809b03000cb200442a9dd7b50000000049454e44ae426082";  // 4 x 4
const char* const kWide =
    "89504e470d0a1a0a0000000d4948445200000005000000040802000000c95162170000001449444154789c637cf6eb"
    "0403126062400584f800a60e02b02fbc14ee0000000049454e44ae426082";  // 4 rows, 5 columns

std::string npy_bytes(const std::string& type, const std::string& shape,
                      const std::string& values) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  return "\x93NUMPY" + std::string{'\1', '\0'} + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + values;
}

}  // namespace

TEST_CASE("check refuses a folder that holds a run, as train does; with --resume it says where") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path(), "--set", "epochs=1"}).code == 0);
  const std::string fault = "the output folder already holds a run: found checkpoints in '" +
                            f.out() + "'; continue it with --resume, or use another folder";
  CHECK_THAT(ran({"train", f.path()}, 2).err, Contains(fault));
  CHECK_THAT(ran({"check", f.path()}, 2).err, Contains(fault));
  const auto before = contents(f.folder.path());
  CHECK_THAT(
      ran({"check", f.path(), "--resume"}, 0).out,
      Contains("would go on from " + f.out() + "/step_4 at update 4, 60 rows; 8 updates left\n") &&
          Contains(": ok\n"));
  CHECK(contents(f.folder.path()) == before);
  const auto left = [&](const char* assignment) {
    return ran({"check", f.path(), "--resume", "--set", assignment}, 0);
  };
  CHECK_THAT(left("epochs=1").out, Contains("60 rows; 0 updates left\n"));
  CHECK_THAT(left("batch=25").out, Contains("60 rows; 6 updates left\n"));  // 3 an epoch
  CHECK_THAT(ran({"check", f.path(), "--resume", "--set", "output=\"\""}, 2).err,
             Contains("--resume needs an output folder"));
  CHECK_THAT(ran({"check", f.path(), "--resume", f.out() + "/step_4", "--set",
                  "output=" + (f.folder / "new")},
                 0)
                 .out,
             Contains("step_4 at update 4"));
}

TEST_CASE("a run resumed on other rows names what has changed and begins the epoch anew") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path(), "--set", "checkpoint.every=2u", "--set", "epochs=2"}).code ==
        0);
  // Update 6: one whole epoch of 60 rows and 32 rows of the second.
  const CliResult r = ran({"train", f.path(), "--resume", f.out() + "/step_6", "--set",
                           "data.count=40", "--set", "test.count=60", "--set", "epochs=2"},
                          0);
  CHECK_THAT(r.err, Contains("warning: the data set is not that of the checkpoint: 60 rows -> 40 "
                             "rows\n") &&
                        Contains("warning: the data set has changed: its epoch 2 begins anew, 32 "
                                 "rows of it were trained\n"));
  CHECK_THAT(r.out, Contains("epoch 2/2 update 9/9"));  // 3 updates of 16, 16 and 8 rows
  CHECK_THAT(ran({"check", f.path(), "--resume", f.out() + "/step_4", "--set", "data.count=40",
                  "--set", "test.count=60"},
                 0)
                 .err,
             Contains("the data set is not that of the checkpoint: 60 rows -> 40 rows"));
  const CliResult same = ran({"train", f.path(), "--resume"}, 0);
  CHECK_THAT(same.err, Contains("40 rows -> 60 rows"));
}

TEST_CASE("images of different sizes in folders are found when the folder is opened") {
  const TestFolder folder;
  for (const char* const name : {"a", "b"})
    std::filesystem::create_directories(folder / (std::string("set/") + name));
  for (const char* const file : {"set/a/0.png", "set/b/0.png"})
    write_text(folder / file, from_hex(kTiny));
  for (const char* const file : {"set/a/1.png", "set/b/1.png"})
    write_text(folder / file, from_hex(kWide));
  const std::string config = folder / "run.toml";
  write_text(config,
             "batch = 2\n[model]\nname = \"softmax\"\n[data]\nname = \"folders\"\nfolder = "
             "\"set\"\n");
  for (const char* const command : {"check", "train"})
    CHECK_THAT(ran({command, config}, 3).err,
               Contains("set/a/1.png: the image has another size than the first: found 4 x 5 (and "
                        "1 other image of another size), expected 4 x 4; give the data a `size`"));
  CHECK(ran({"check", config, "--set", "data.size=[4, 4]"}, 0).err.empty());
  // Advice for models that need larger ones names the key these data have.
  const std::string small =
      ran({"check", config, "--set", "data.size=[4, 4]", "--set", "model.name=lenet"}, 2).err;
  CHECK_THAT(small, Contains("--set: model 'lenet' cannot take these images: found [4, 4, 3]") &&
                        Contains("use model 'mlp' or 'softmax', or set data.size") &&
                        !Contains("shape"));
  CHECK_THAT(
      ran({"check", config, "--set", "data.mean=[0.5, 0.5]", "--set", "data.size=[4, 4]"}, 2).err,
      Contains("--set: `mean` does not fit the channels: found 2 values, expected 1 or 3, "
               "one a channel of the rows"));
}

TEST_CASE("batch norm over single values: passes of 1 row are found before training") {
  const Config f(
      "batch = 16\ntowers = \"cpu:2\"\nthreads_per_tower = 1\n[model]\nname = \"layers\"\n"
      "layers = [{name = \"linear\", out = 4}, \"batch_norm\", \"linear\"]\n"
      "[data]\nname = \"csv\"\nfile = \"data.csv\"\ncount = 34\n");
  for (const char* const command : {"check", "train"})
    CHECK_THAT(ran({command, f.path()}, 2).err,
               Contains("own.toml:1:1: batch norm of model 'layers' needs 2 rows in every backward "
                        "pass: found 1 row in one of the last batch: 2 rows over 2 towers; set "
                        "loader.drop_last = true, or another batch or use fewer towers"));
  CHECK(run_cli({"train", f.path(), "--set", "loader.drop_last=true"}).code == 0);
  CHECK(run_cli({"train", f.path(), "--towers", "cpu:1"}).code == 0);
  CHECK(run_cli({"train", f.path(), "--set", "batch=17"}).code == 0);
  CHECK_THAT(
      ran({"check", f.path(), "--set", "data.count=32", "--set", "optimizer.accumulate=8"}, 2).err,
      Contains("found 1 row in one of a batch: 16 rows over 2 towers with accumulate = 8; "
               "raise batch or use fewer towers or lower optimizer.accumulate"));
  CHECK_THAT(ran({"check", f.path(), "--set", "data.count=32", "--set", "optimizer.reduce=strict",
                  "--set", "optimizer.virtual_shards=16"},
                 2)
                 .err,
             Contains("16 rows over 16 virtual shards; raise batch or lower "
                      "optimizer.virtual_shards"));
}

TEST_CASE("the fewest rows of a pass, over towers, micro-batches and virtual shards") {
  Optimizer o = sgd({.lr = 0.1});
  CHECK(smallest_pass(o, 2, 33) == 16);
  CHECK(smallest_pass(o, 4, 3) == 1);  // the fourth has none
  o.accumulate = 3;
  CHECK(smallest_pass(o, 2, 33) == 5);
  CHECK(smallest_pass(sgd({.lr = 0.1}).strict(8), 2, 33) == 4);
}

TEST_CASE("advice names keys that the data and the model have") {
  const CliFolder f;
  write_text(f.folder / "tokens.bin", std::string(400, '\1'));
  const std::string gpt = f.folder / "gpt.toml";
  write_text(gpt,
             "[model]\nname = \"gpt\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n[data]\n"
             "name = \"tokens\"\nfiles = [\"tokens.bin\"]\nvocabulary = 300\ncontext = 16\n");
  CHECK_THAT(
      ran({"check", gpt}, 2).err,
      Contains("gpt.toml:6:1: model.context is too small: found 8, expected at least 16, the "
               "positions in the data's rows; raise it, or leave it out"));
  CHECK_THAT(ran({"check", gpt, "--set", "model.context=0", "--set", "model.vocabulary=100000000",
                  "--set", "model.width=100000"},
                 2)
                 .err,
             Contains("lower model.width, model.layers, data.vocabulary") && !Contains("hidden") &&
                 !Contains("data.classes"));
  CHECK_THAT(ran({"check", gpt, "--set", "data.flip=true"}, 2).err,
             Contains("unknown key 'data.flip'") && Contains("'flip' belongs to data sets") &&
                 Contains("folders"));
  CHECK_THAT(
      ran({"check", f.path(), "--set", "model.name=lenet", "--set", "model={name = \"lenet\"}"}, 2)
          .err,
      Contains("use model 'mlp' or 'softmax', or set data.shape"));
  write_text(f.folder / "minus.csv", "1,2,3,4,-1\n1,2,3,5,1\n");
  CHECK_THAT(ran({"check", f.path(), "--set", "data.file=minus.csv"}, 3).err,
             Contains("label -1 in row 0, expected a label in [0,2); classes count from 0: of -1 "
                      "and 1 make 0 and 1; or name -1 as `ignore`"));
  write_text(f.folder / "one.csv", "1,2,3,4,0\n");
  CHECK_THAT(ran({"check", f.path(), "--set", "data.file=one.csv"}, 3).err,
             Contains("expected at least 2 classes; set data.classes"));
  CHECK_THAT(ran({"check", f.path(), "--set", "test.classes=7", "--set", "data.count=30"}, 3).err,
             Contains("run.toml:13:1: [test] has more classes than [data]: found 7, expected at "
                      "most 3; set data.classes = 7"));
}

TEST_CASE("what shows only with the data has the place of its key") {
  const CliFolder f;
  write_text(f.folder / "narrow.csv", "1,2,0\n2,3,1\n");
  f.config("", "", "[validation]\nfile = \"narrow.csv\"");
  CHECK_THAT(ran({"check", f.path()}, 3).err,
             Contains("run.toml:17:1: [validation] has other images than [data]: found [2], "
                      "expected [4]; give both the same `shape`"));
  f.config("", "", "[validation]\nfile = \"narrow.csv\"\nstandardize = true");
  CHECK_THAT(
      ran({"check", f.path()}, 2).err,
      Contains("run.toml:19:1: standardize = true needs it in [data], too: found the rows of "
               "[data] as they are"));
  const std::string layers = f.folder / "layers.toml";
  write_text(layers,
             "[model]\nname = \"layers\"\ninput = [5]\nlayers = [\"linear\"]\n[data]\nname = "
             "\"csv\"\nfile = \"data.csv\"\n");
  CHECK_THAT(ran({"check", layers}, 2).err,
             Contains("layers.toml:3:1: the data has not the shape that model.input says: found "
                      "[4], expected [5]"));
}

TEST_CASE("wsd: a warm-up longer than the time at full rate") {
  const CliFolder f;
  const std::vector<std::string> wsd{"check", f.path(), "--set",
                                     "schedule={name = \"wsd\", stable = \"5u\", decay = \"4u\", "
                                     "warmup = \"6u\"}"};
  CHECK_THAT(ran(wsd, 2).err, Contains("[schedule]: stable = \"5u\" ends before the warm-up of "
                                       "\"6u\" that it includes"));
  const auto with = [&](const std::string& key, int code) {
    std::vector<std::string> out = wsd;
    out.insert(out.end(), {"--set", key});
    return ran(out, code).err;
  };
  CHECK(with("schedule.warmup=5u", 0).empty());
  CHECK_THAT(with("schedule.warmup=2e", 2), Contains("stable = \"5u\" ends before"));  // 8 updates
  CHECK(with("schedule.warmup=1e", 0).empty());                                        // 4
}

TEST_CASE("wsd: a fall that begins after the end of the run") {
  const CliFolder f;  // 12 updates
  const auto with = [&](const std::string& stable, int code) {
    f.config("", "", "[schedule]\nname = \"wsd\"\nstable = " + stable + "\ndecay = \"2u\"\n");
    return ran({"check", f.path()}, code).err;
  };
  CHECK_THAT(with("\"3e\"", 2),
             Contains("run.toml:19:1: the fall begins at update 12 (stable = \"3e\"), and the run "
                      "ends with update 12: make stable shorter or the run longer"));
  CHECK_THAT(with("\"200u\"", 2), Contains("begins at update 200"));
  CHECK_THAT(with("11", 2), Contains("the fall takes 2 updates from update 11 on"));
  CHECK(with("10", 0).empty());
}

TEST_CASE("strict: more towers than virtual shards have the place of the key") {
  const CliFolder f;
  f.config("", "reduce = \"strict\"\nvirtual_shards = 1");
  CHECK_THAT(ran({"check", f.path()}, 2).err,
             Contains("run.toml:17:1: reduce = \"strict\": found 2 towers, 1 virtual shards"));
  f.config("", "reduce = \"strict\"");
  CHECK_THAT(ran({"train", f.path(), "--towers", "cpu:9"}, 2).err,
             Contains("run.toml:16:1: reduce = \"strict\": found 9 towers, 8 virtual shards"));
}

TEST_CASE("a value in the place of a table is a fault that says how its keys are set") {
  const CliFolder f;
  for (const std::string table : {"test", "validation"})
    CHECK_THAT(ran({"check", f.path(), "--set", table + "=3"}, 2).err,
               Contains("--set: key '" + table +
                        "': found integer 3, expected a table: its keys "
                        "are set one by one, as " +
                        table + ".KEY = VALUE, or below [" + table + "]\n"));
}

TEST_CASE("[test] of npy may name an archive where [data] names arrays, and mix-ups are named") {
  const TestFolder folder;
  const std::string x = npy_bytes("|u1", "(2, 3)", std::string("\1\2\3\4\5\6", 6));
  const std::string y = npy_bytes("|u1", "(2,)", std::string("\0\1", 2));
  write_text(folder / "x.npy", x);
  write_text(folder / "y.npy", y);
  write_text(folder / "both.npz", std::string("PK\3\4") + std::string(60, '\0'));
  const std::string config = folder / "run.toml";
  const std::string start =
      "batch = 2\n[model]\nname = \"softmax\"\n[data]\nname = \"npy\"\nx = \"x.npy\"\ny = "
      "\"y.npy\"\n";
  write_text(config, start + "[test]\nfile = \"both.npz\"\n");
  // The archive is opened: no fault about x and y.
  CHECK_THAT(ran({"check", config}, 3).err, Contains("both.npz: not a zip archive"));
  write_text(config, start + "[test]\nx = \"x.npy\"\n");
  CHECK(ran({"check", config}, 0).err.empty());
  CHECK_THAT(
      ran({"check", config, "--set", "data.x=both.npz"}, 3).err,
      Contains("both.npz: the file is of the other kind of numpy: found an npz archive; name "
               "it by `file` instead of `x` and `y`"));
  CHECK_THAT(
      ran({"check", config, "--set", "data={name = \"npy\", file = \"x.npy\"}", "--set",
           "test={file = \"x.npy\"}"},
          3)
          .err,
      Contains("x.npy: the file is of the other kind of numpy: found a single npy array; name "
               "it by `x` and `y` instead of `file`"));
}

TEST_CASE("--set of a whole table or list takes the place of the file's") {
  const CliFolder f;
  f.config("", "weight_decay = 0.25\nname = \"nesterov\"\nmomentum = 0.5");
  CHECK_THAT(ran({"check", f.path(), "--set", "optimizer={name = \"sgd\"}"}, 0).out,
             Contains(": ok\n"));
  Document document = Document::from_text(
      "[a]\nx = 1\ny = 2\n[a.b]\nz = 3\n[[a.list]]\nname = \"p\"\nq = 1\n", "f.toml");
  document.set("a.list=[\"r\"]");
  CHECK(document.items("a", "list") == std::vector<std::string>{"a.list.0"});
  CHECK(document.peek_string("a.list.0", "name", "") == "r");
  CHECK_FALSE(document.has_key("a.list.0", "q"));
  document.set("a={x = 5}");
  CHECK(document.has_key("a", "x"));
  CHECK_FALSE(document.has_key("a", "y"));
  CHECK_FALSE(document.has_table("a.b"));
  const auto layer = [](const std::vector<std::string>& assignments) {
    Document d = Document::from_text("[m]\nlayers = [{name = \"p\", q = 1, r = {s = 2}}, \"t\"]\n",
                                     "f.toml");
    for (const std::string& a : assignments) d.set(a);
    const auto items = d.items("m", "layers");
    CHECK(items == std::vector<std::string>{"m.layers.0", "m.layers.1"});
    return d.peek_string(items[0], "name", "") + (d.has_key(items[0], "q") ? " q" : "") +
           (d.has_table(items[0] + ".r") ? " r " : " ") + d.peek_string(items[1], "name", "");
  };
  CHECK(layer({}) == "p q r t");
  CHECK(layer({"m.layers.0.q=3"}) == "p q r t");
  CHECK(layer({"m.layers.0={name = \"u\"}"}) == "u t");
  CHECK(layer({"m.layers.0={name = \"u\"}", "m.layers.0.q=3"}) == "u q t");
  CHECK(layer({"m.layers.0=\"u\"", "m.layers.1=v"}) == "u v");
  document.set("a.y=7");  // one key leaves the others
  CHECK(document.has_key("a", "x"));
  CHECK(document.has_key("a", "y"));
}

TEST_CASE("eval brings [test] to the figures of training, kept in the checkpoint, without [data]") {
  const CliFolder f;
  f.config("", "", "");
  const std::vector<std::string> on{"--set", "data.standardize=true"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), on.begin(), on.end());
    return arguments;
  };
  write_text(f.folder / "test.csv", read_text(f.folder / "data.csv"));
  const auto test_line = [](const std::string& out) {
    return out.substr(
        out.find("loss ", out.find("test: loss") == out.npos ? 0 : out.find("test: loss")), 26);
  };
  const CliResult trained = ran(with({"train", f.path(), "--set", "test.file=test.csv"}), 0);
  const std::string manifest = read_text(f.out() + "/step_12/manifest.json");
  CHECK_THAT(manifest, Contains("\"standardize.mean\"") && Contains("\"rows\": 60"));
  // The rows of training become others: figures measured on these would give another loss.
  write_text(f.folder / "data.csv", "100,200,300,400,0\n-100,0,0,50,1\n5,5,5,5,2\n");
  const CliResult shifted = ran(with({"eval", f.path(), "--set", "test.file=test.csv"}), 0);
  CHECK_THAT(shifted.out, Contains("data: as in the checkpoint: 60 rows, image [4] f32"));
  const std::string evaluated = shifted.out.substr(shifted.out.find("at update 12: loss "));
  CHECK(evaluated.substr(14, 11) == test_line(trained.out).substr(0, 11));
  std::filesystem::remove(f.folder / "data.csv");
  CHECK(ran(with({"eval", f.path(), "--set", "test.file=test.csv"}), 0).out == shifted.out);
  CHECK_THAT(ran(with({"train", f.path(), "--resume", "--set", "test.file=test.csv"}), 3).err,
             Contains("data.csv"));
}

TEST_CASE("--sample needs no text of training; --top-k stays below the vocabulary") {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcdefghij";
  write_text(folder / "text.txt", text);
  const std::string config = folder / "run.toml";
  write_text(config,
             "batch = 8\nepochs = 1\noutput = \"" + (folder / "out") +
                 "\"\n[model]\nname = \"gpt\"\nlayers = 1\nwidth = 16\nheads = 2\n[data]\n"
                 "name = \"text\"\nfiles = [\"text.txt\"]\ncontext = 16\n[optimizer]\nname = "
                 "\"adamw\"\n");
  CHECK(ran({"train", config}, 0).err.empty());
  const std::vector<std::string> sample{"eval", config, "--sample", "20", "--prompt", "abc"};
  const std::string out = ran(sample, 0).out;
  CHECK(out.size() == 3 + 20 + 1);
  std::filesystem::remove(folder / "text.txt");
  CHECK(ran(sample, 0).out == out);
  const auto top = [&](const std::string& k, int code) {
    std::vector<std::string> arguments = sample;
    arguments.insert(arguments.end(), {"--top-k", k});
    return ran(arguments, code).err;
  };
  CHECK_THAT(top("257", 2), Contains("--top-k is more than there are to draw from: found 257, "
                                     "expected at most 256, or 0 for all"));
  top("256", 0);
}

TEST_CASE("eval of another model gives advice that eval can follow") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path(), "--set", "epochs=1"}).code == 0);
  CHECK_THAT(ran({"eval", f.path(), "--set", "model.hidden=[9]"}, 6).err,
             Contains("the checkpoint does not fit") && !Contains("partial") &&
                 Contains("use the model it was saved with"));
  CHECK_THAT(ran({"train", f.path(), "--resume", "--set", "model.hidden=[9]"}, 6).err,
             Contains("--partial"));
}

TEST_CASE("the memory plan counts a model's states") {
  const std::string layers =
      "[model]\nname = \"layers\"\nlayers = [\"batch_norm\", \"linear\"]\n[data]\nname = "
      "\"cifar\"\nfiles = [\"x\"]\n";
  const TrainConfig config = TrainConfig::load(Document::from_text(layers, "run.toml"), builtin());
  const auto module = config.model->build(Shape{5}, 3);
  const auto line = [&](int towers) {
    for (const MemoryPlan::Line& l :
         plan_memory(*module, sgd({.lr = 0.1}), towers, Variables::shared).lines)
      if (l.kind == "model state") return l.bytes * l.copies;
    return 0.0;
  };
  // An element: mean and variance, its rule of 8 bytes, terms of 12 bytes for the pass, the tower's
  // leaf and, with others, every tower's.
  CHECK(line(1) == 5 * (8 + 8 + 12 * 2));
  CHECK(line(3) == 3 * 5 * (8 + 8 + 12 * (2 + 3)));
}

TEST_CASE("patterns of variables: what matches none is named, what freezes all is an error") {
  const CliFolder f;
  const CliResult odd = run_cli({"check", f.path(), "--set", "optimizer.no_decay=[\"*.bais\"]",
                                 "--set", "optimizer.multipliers=[\"hidden*=2\"]"});
  CHECK(odd.code == 0);
  CHECK_THAT(odd.out + odd.err, Contains("optimizer.no_decay: '*.bais' matches no variable") &&
                                    !Contains("optimizer.multipliers: "));
  const CliResult all = run_cli({"check", f.path(), "--set", "optimizer.freeze=[\"*\"]"});
  CHECK(all.code == 2);
  CHECK_THAT(all.err, Contains("optimizer.freeze leaves nothing to train") &&
                          Contains("all variables of model 'mlp'"));
}

TEST_CASE("a resume that rounds in another way says so") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path(), "--set", "epochs=1"}).code == 0);
  const CliResult same = run_cli({"train", f.path(), "--resume", "--set", "epochs=2"});
  CHECK(same.code == 0);
  CHECK_THAT(same.out + same.err, !Contains("rounded in another way"));
  const CliResult other =
      run_cli({"train", f.path(), "--resume", "--set", "epochs=3", "--set", "threads_per_tower=2"});
  CHECK(other.code == 0);
  CHECK_THAT(other.out + other.err,
             Contains("threads a tower: 1 -> 2: products and sums are rounded in another way"));
  if (!cpu_precision_fault(Precision::bf16).empty()) return;
  const CliResult narrow =
      run_cli({"train", f.path(), "--resume", "--set", "epochs=4", "--set", "precision=bf16"});
  CHECK(narrow.code == 0);
  CHECK_THAT(narrow.out + narrow.err, Contains("precision: f32 -> bf16"));
}

namespace {

// Opens when another one is being opened, too, or after a while.
class Together final : public DatasetFactory {
 public:
  Together(std::atomic<int>& open, bool alone) : open_(open), alone_(alone) {}
  void declare(Schema& schema) override { schema.key("bad", bad_, {}); }
  bool stands_alone() const override { return alone_; }
  std::shared_ptr<const Dataset> open(const std::string&) const override {
    ++open_;
    for (int i = 0; i < (alone_ ? 1000 : 1) && open_ < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const bool both = open_ == 2;
    if (bad_) throw DataError(both ? "both" : "one");
    return memory_dataset(std::vector<float>(8), Shape{2}, {0, 1, 0, 1}, 2);
  }

 private:
  std::atomic<int>& open_;
  bool alone_;
  bool bad_ = false;
};

}  // namespace

TEST_CASE(
    "files of sets that need nothing of [data] are read at the same time; its fault is first") {
  const TestFolder folder;
  write_text(folder / "run.toml", "[model]\nname = \"softmax\"\n[data]\nname = \"set\"\n[test]\n");
  for (const bool alone : {true, false}) {
    CAPTURE(alone);
    std::atomic<int> open{0};
    Registry registry = builtin();
    registry.table<DatasetEntry>().add(
        "set", {[&] { return std::make_unique<Together>(open, alone); }, "of this test"});
    const auto check = [&](const std::string& set) {
      open = 0;
      return run_cli(
          {"check", folder / "run.toml", "--set", set}, [] { return 0; }, registry);
    };
    CHECK(check("test.bad=false").code == 0);
    CHECK(open == 2);
    CHECK(check("test.bad=true").err == "error: both\n");  // the second of two in any case
    const CliResult data = check("data.bad=true");
    CHECK(data.code == 3);
    CHECK(data.err == (alone ? "error: both\n" : "error: one\n"));
  }
}
