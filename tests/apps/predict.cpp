// SPDX-License-Identifier: MIT
// Rows without labels, and numbers to be predicted in place of classes, through the command.
#include <cmath>
#include <sstream>

#include "belfry/tests/apps/cli.h"
#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

CliResult ran(const std::vector<std::string>& arguments, int code) {
  const CliResult result = run_cli(arguments);
  CAPTURE(result.out, result.err);
  CHECK(result.code == code);
  return result;
}

std::vector<std::vector<double>> numbers(const std::string& csv) {
  std::vector<std::vector<double>> out;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    out.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) out.back().push_back(std::stod(cell));
  }
  return out;
}

// data.csv with a header: a, b and the targets y = 2 a - b + 0.5 and z = a + b.
struct LineFolder {
  LineFolder() {
    std::string rows = "a,b,y,z\n", unlabelled = "a,b\n";
    for (int r = 0; r < 60; ++r) {
      const double a = (r * 7 % 13) / 6.5 - 1, b = (r * 5 % 11) / 5.5 - 1;
      rows += fmt(a) + "," + fmt(b) + "," + fmt(2 * a - b + 0.5) + "," + fmt(a + b) + "\n";
      unlabelled += fmt(a) + "," + fmt(b) + "\n";
    }
    write_text(folder / "data.csv", rows);
    write_text(folder / "new.csv", unlabelled);
    config("");
  }
  static std::string fmt(double v) { return std::to_string(v); }
  void config(const std::string& end, const std::string& data = "targets = [\"y\", \"z\"]") const {
    write_text(path(),
               "towers = \"cpu:2\"\nthreads_per_tower = 1\nbatch = 20\nepochs = 60\noutput = \"" +
                   (folder / "out") +
                   "\"\n[model]\nname = \"mlp\"\nhidden = []\n[data]\nname = \"csv\"\nfile "
                   "= \"data.csv\"\n" +
                   data + "\n[optimizer]\nlr = 0.2\nmomentum = 0.0\n" + end);
  }
  std::string path() const { return folder / "run.toml"; }
  TestFolder folder;
};

// IDX images, dark ones of class 0 and light ones of class 1, and run.toml: softmax on them, with
// `end` behind the keys of [data].
void write_greys(const TestFolder& folder, int epochs, const std::string& end) {
  std::string pixels, labels;
  for (int r = 0; r < 20; ++r) {
    labels += static_cast<char>(r % 2);
    pixels += std::string(16, static_cast<char>(r % 2 == 0 ? 20 : 220));
  }
  write_text(folder / "images", idx_images(20, 4, 4, pixels));
  write_text(folder / "labels", idx_labels(20, labels));
  write_text(folder / "run.toml",
             "epochs = " + std::to_string(epochs) + "\nbatch = 10\noutput = \"" + (folder / "out") +
                 "\"\n[model]\nname = \"softmax\"\n[data]\nname = \"idx\"\nimages = "
                 "\"images\"\nlabels = \"labels\"\n" +
                 end);
}

std::string npy_floats(const std::string& shape, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  return "\x93NUMPY" + std::string{'\1', '\0'} + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

}  // namespace

TEST_CASE("predict gives rows without labels what eval gives them with labels") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path()}).code == 0);
  std::string unlabelled;
  std::istringstream rows(read_text(f.folder / "data.csv"));
  for (std::string line; std::getline(rows, line);)
    unlabelled += line.substr(0, line.rfind(',')) + "\n";
  write_text(f.folder / "new.csv", unlabelled);
  f.config("", "", "[predict]\nfile = \"new.csv\"\n");
  const CliResult predicted = ran({"predict", f.path()}, 0);
  CHECK_THAT(predicted.err, Contains("step_12 at update 12: 60 predictions of [predict]\n"));
  const CliResult evaluated = ran({"eval", f.path(), "--predictions", "-"}, 0);
  const auto got = numbers(predicted.out), want = numbers(evaluated.out);
  REQUIRE(got.size() == 60);
  REQUIRE(want.size() == 60);
  CHECK_THAT(predicted.out, Catch::Matchers::StartsWith("row,prediction,probability\n0,"));
  for (std::size_t r = 0; r < 60; ++r)  // without the label
    CHECK(got[r] == std::vector<double>{want[r][0], want[r][2], want[r][3]});
  // To a file; other towers; from code's point of view nothing of [data] or [test] is read.
  std::filesystem::remove(f.folder / "data.csv");
  ran({"predict", f.path(), "--to", f.folder / "p.csv", "--towers", "cpu:3"}, 0);
  CHECK(numbers(read_text(f.folder / "p.csv")).size() == 60);
}

TEST_CASE("predict leaves out a label column that is there under its name") {
  const CliFolder f;
  write_text(f.folder / "data.csv", "p,q,r,s,kind\n" + read_text(f.folder / "data.csv"));
  f.config("", "", "[predict]\nfile = \"data.csv\"\n");
  const std::vector<std::string> label{"--set", "data.label=kind"};
  const auto with = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.end(), {"--set", "data.label=kind"});
    return ran(arguments, code);
  };
  with({"train", f.path()}, 0);
  CHECK(numbers(with({"predict", f.path()}, 0).out).size() == 60);
  write_text(f.folder / "data.csv", "t,s,r,q,p\n5,4,3,2,1\n");  // what the model does not know, too
  CHECK(numbers(with({"predict", f.path()}, 0).out).size() == 1);
  write_text(f.folder / "data.csv", "p,q,r,t\n1,2,3,4\n");
  CHECK_THAT(with({"predict", f.path()}, 3).err, Contains("expected 's' among them"));
}

TEST_CASE("what predict needs is said") {
  const CliFolder f;
  CHECK_THAT(ran({"predict", f.path()}, 2).err, Contains("no table [predict]"));
  f.config("", "", "[predict]\nfile = \"data.csv\"\n");
  CHECK_THAT(ran({"predict", f.path()}, 6).err, Contains("out"));
  CHECK_THAT(ran({"predict", f.path(), "--set", "predict=3"}, 2).err, Contains("expected a table"));
  REQUIRE(run_cli({"train", f.path()}).code == 0);
  CHECK_THAT(ran({"predict", f.path(), "--ema"}, 2).err, Contains("optimizer.ema = 0"));
  CHECK_THAT(ran({"predict", f.path(), "--to", f.path()}, 2).err, Contains("--to"));
  CHECK_THAT(
      ran({"predict", f.path(), "--set", "predict={name = \"cifar\", files = [\"x\"]}"}, 2).err,
      Contains("rows of kind 'cifar' always have labels"));
}

TEST_CASE("regression: columns of a CSV file are predicted, mse and mae told") {
  const LineFolder f;
  f.config("[validation]\nfile = \"other.csv\"\n[test]\n[checkpoint]\nbest = true\n");
  std::filesystem::copy_file(f.folder / "data.csv", f.folder / "other.csv");
  const CliResult train = ran({"train", f.path()}, 0);
  CHECK_THAT(train.out, Contains("csv: 60 rows, image [2] f32, target [2] f32\n") &&
                            Contains(" mae ") && Contains("test: loss 0.000"));
  CHECK_THAT(train.out, Contains("new best loss 0."));
  const auto lines = numbers(ran({"eval", f.path(), "--predictions", "-"}, 0).out);
  REQUIRE(lines.size() == 120);
  for (const auto& line : lines) {  // row, output, target, prediction
    REQUIRE(line.size() == 4);
    CHECK(std::abs(line[3] - line[2]) < 0.02);
  }
  CHECK(lines[2][0] == 1);
  CHECK(lines[3][1] == 1);
  const CliResult predicted =
      ran({"predict", f.path(), "--set", "predict={file = \"new.csv\"}"}, 0);
  CHECK_THAT(predicted.out, Catch::Matchers::StartsWith("row,output,prediction\n0,0,"));
  const auto got = numbers(predicted.out);
  REQUIRE(got.size() == 120);
  for (std::size_t i = 0; i < 120; ++i) CHECK(got[i][2] == lines[i][3]);
  CHECK_THAT(ran({"eval", f.path(), "--confusion", "-"}, 2).err,
             Contains("--confusion is for classes"));
}

TEST_CASE("regression: what does not go together is refused with its place") {
  const LineFolder f;
  CHECK_THAT(ran({"check", f.path(), "--set", "label_smoothing=0.1"}, 2).err,
             Contains("label_smoothing is for classes"));
  CHECK_THAT(ran({"check", f.path(), "--set", "data.label=y"}, 2).err,
             Contains("`targets` are numbers: leave out `label`"));
  CHECK_THAT(ran({"check", f.path(), "--set", "data.targets=[\"w\"]"}, 3).err,
             Contains("`targets` names a column that is not there"));
  CHECK_THAT(ran({"check", f.path(), "--set", "data.features=[\"a\", \"y\"]"}, 3).err,
             Contains("a target column is among the features: found 'y'"));
  f.config("[test]\ntargets = [\"y\"]\nfeatures = [\"a\", \"b\"]\n");
  CHECK_THAT(ran({"check", f.path()}, 3).err,
             Contains("[test] has other targets than [data]: found [1], expected [2]"));
}

TEST_CASE("regression and prediction on arrays of numpy") {
  const TestFolder folder;
  std::vector<float> x, y;
  for (int r = 0; r < 40; ++r) {
    x.insert(x.end(), {static_cast<float>(r % 5) / 5, static_cast<float>(r % 3) / 3});
    y.push_back(3 * x[x.size() - 2] - x.back());
  }
  write_text(folder / "x.npy", npy_floats("(40, 2)", x));
  write_text(folder / "y.npy", npy_floats("(40,)", y));
  write_text(folder / "run.toml",
             "epochs = 100\nbatch = 20\noutput = \"" + (folder / "out") +
                 "\"\n[model]\nname = \"softmax\"\n[data]\nname = \"npy\"\nx = \"x.npy\"\ny = "
                 "\"y.npy\"\ntargets = true\n[predict]\ny = \"gone.npy\"\n[optimizer]\nlr = 0.1\n");
  const std::string config = folder / "run.toml";
  CHECK_THAT(ran({"train", config}, 0).out, Contains("target [1] f32"));
  const auto got = numbers(ran({"predict", config}, 0).out);  // y is not read
  REQUIRE(got.size() == 40);
  for (std::size_t r = 0; r < 40; ++r)
    CHECK(std::abs(got[r][1] - static_cast<double>(y[r])) < 0.05);
  CHECK_THAT(ran({"check", config, "--set", "data.targets=false", "--set", "output=\"\""}, 3).err,
             Contains("labels are integers") && Contains("targets = true"));
  write_text(folder / "y.npy", npy_floats("(39,)", std::vector<float>(39)));
  CHECK_THAT(ran({"check", config, "--set", "output=\"\""}, 3).err,
             Contains("x and y do not belong together"));
}

TEST_CASE("prediction on IDX images without a file of labels") {
  const TestFolder folder;
  write_greys(folder, 20, "[predict]\n");
  ran({"train", folder / "run.toml"}, 0);
  std::filesystem::remove(folder / "labels");
  const auto got = numbers(ran({"predict", folder / "run.toml"}, 0).out);
  REQUIRE(got.size() == 20);
  for (std::size_t r = 0; r < 20; ++r) CHECK(got[r][1] == static_cast<double>(r % 2));
}

TEST_CASE("labels that a file has not are in no description of it") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path()}).code == 0);
  write_text(f.folder / "new.csv", "1,2,3,4\n");
  f.config("", "", "[predict]\nfile = \"new.csv\"\n");
  CHECK_THAT(ran({"predict", f.path()}, 0).err, Contains("predict: csv: 1 row, image [4] f32\n"));
  const LineFolder line;
  REQUIRE(run_cli({"train", line.path()}).code == 0);
  CHECK_THAT(ran({"predict", line.path(), "--set", "predict.file=new.csv"}, 0).err,
             Contains("predict: csv: 60 rows, image [2] f32\n"));
}

TEST_CASE("a predicted row has its number in the file, whatever is left out of that") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path()}).code == 0);
  std::string rows;
  for (int r = 0; r < 12; ++r)
    rows += r == 4 || r == 9 ? "1,,2,3\n" : std::to_string(r) + ",1,2,3\n";
  write_text(f.folder / "new.csv", rows);
  f.config("", "", "[predict]\nfile = \"new.csv\"\nmissing = \"drop\"\nfirst = 2\n");
  std::vector<double> places;
  for (const auto& line : numbers(ran({"predict", f.path()}, 0).out)) places.push_back(line[0]);
  CHECK(places == std::vector<double>{2, 3, 5, 6, 7, 8, 10, 11});
  f.config("", "", "");
  const auto tested = numbers(ran({"eval", f.path(), "--predictions", "-", "--set", "test.first=50",
                                   "--set", "test.count=3"},
                                  0)
                                  .out);
  REQUIRE(tested.size() == 3);
  CHECK(tested[0][0] == 50);
  CHECK(tested[2][0] == 52);
}

namespace {

// What eval and predict say of a config whose [data] changed after training.
void check_changed(const std::string& config, const std::string& change, const std::string& text) {
  CAPTURE(change);
  for (const char* const command : {"eval", "predict"})
    CHECK_THAT(
        ran({command, config, "--set", change}, 6).err,
        Contains("--set: the checkpoint was trained on other data than this config's [data]: " +
                 text + ", as the checkpoint says"));
}

}  // namespace

TEST_CASE("rows that [data] makes otherwise than in training are refused with both values") {
  const CliFolder f;
  f.config("", "", "[predict]\n");
  REQUIRE(run_cli({"train", f.path(), "--set", "data.scale=16"}).code == 0);
  const std::string as = "data.scale=16";
  CHECK(ran({"predict", f.path(), "--set", "data.scale=16.0", "--set", "predict.count=2", "--set",
             "predict.features=[0, 1, 2, 3]"},
            0)
            .out.size() > 20);
  CHECK_THAT(ran({"eval", f.path()}, 6).err,
             Contains("run.toml:10:1: the checkpoint was trained on other data than this config's "
                      "[data]: found scale = 1.0, expected scale = 16.0, as the checkpoint says"));
  check_changed(f.path(), "data.scale=255", "found scale = 255.0, expected scale = 16.0");
  // Files of another kind say so themselves.
  CHECK(ran({"eval", f.path(), "--set", as, "--set", "test.scale=2"}, 0).err.empty());
  // Another kind of [data] cannot be compared.
  CHECK_THAT(ran({"eval", f.path(), "--set", "data={name = \"npy\", x = \"x\", y = \"y\"}", "--set",
                  "test={name = \"csv\", file = \"data.csv\"}"},
                 0)
                 .err,
             Contains("warning: the model was trained on rows with ") && Contains("scale = 16.0") &&
                 Contains("of another kind now, 'npy'"));
  // Resuming with it is a warning.
  CHECK_THAT(ran({"train", f.path(), "--resume", "--set", "epochs=4"}, 0).err,
             Contains("the data set is not that of the checkpoint: scale = 16.0 -> scale = 1.0"));
}

TEST_CASE("images of another normalisation than in training are refused") {
  const TestFolder folder;
  write_greys(folder, 1, "mean = 0.5\n[test]\n[predict]\nfirst = 5\n");
  const std::string config = folder / "run.toml";
  ran({"train", config}, 0);
  check_changed(config, "data.mean=0", "found mean = 0.0, expected mean = 0.5");
  check_changed(config, "data.std=2", "found std = 2.0, expected std = 1.0");
  const CliResult got = ran({"predict", config}, 0);
  CHECK_THAT(got.err, Contains("predict: idx: 15 rows, image [4, 4, 1] f32; rows that"));
  CHECK_THAT(got.out, Catch::Matchers::StartsWith("row,prediction,probability\n5,"));
}

TEST_CASE("grey images without an axis of channels: the shape that a net of images takes") {
  const TestFolder folder;
  write_text(folder / "x.npy", npy_floats("(4, 20, 24)", std::vector<float>(4 * 20 * 24, 0.5f)));
  write_text(folder / "y.npy", npy_floats("(4,)", std::vector<float>(4)));
  write_text(folder / "run.toml",
             "[model]\nname = \"lenet\"\n[data]\nname = \"npy\"\nx = \"x.npy\"\ny = "
             "\"y.npy\"\ntargets = true\n");
  CHECK_THAT(ran({"check", folder / "run.toml"}, 2).err,
             Contains("found [20, 24], expected [rows, columns, channels]") &&
                 Contains("or set data.shape = [20, 24, 1]\n"));
  ran({"check", folder / "run.toml", "--set", "data.shape=[20, 24, 1]"}, 0);
}
