// SPDX-License-Identifier: MIT
#include "belfry/core/document.h"

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"

using namespace belfry;

namespace {

struct Config {
  std::int64_t batch = 32, towers = 1;
  double lr = 0.1, momentum = 0.9;
  bool shuffle = true;
  std::string loss = "mean", length = "5e";
  std::vector<std::int64_t> devices{};
  std::vector<double> decay{};
  std::vector<std::string> hooks{};

  Schema data() {
    Schema s;
    s.key("batch", batch, {.min = 1, .max = 1e6, .unit = "rows", .help = "Rows of an update"});
    s.key("shuffle", shuffle).key("devices", devices, {.min = 0}).key("hooks", hooks);
    return s;
  }
  Schema optimizer() {
    Schema s;
    s.key("learning_rate", lr, {.min = 0}).key("decay", decay, {.min = 0});
    s.key("momentum", momentum, {.min = 0, .max = 1, .exclusive_max = true});
    s.rule([this] { return lr > 10 && momentum > 0 ? "a rate above 10 needs momentum 0" : ""; });
    return s;
  }
  Schema top() {
    Schema s;
    s.key("towers", towers, {.min = 1, .max = 1024});
    s.key("loss", loss, {.choices = {"mean", "sum"}}).key("length", length, {.period = true});
    return s;
  }
  void bind(Document& doc) {
    doc.bind("", top());
    doc.bind("data", data());
    doc.bind("optimizer", optimizer());
  }
};

Config parse(const std::string& text, const std::vector<std::string>& sets = {}) {
  Config config;
  Document doc = Document::from_text(text, "run.toml");
  for (const std::string& s : sets) doc.set(s);
  config.bind(doc);
  doc.finish();
  return config;
}

std::string fault(const std::string& text, const std::vector<std::string>& sets = {}) {
  try {
    parse(text, sets);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

std::string data(const std::string& line) { return "[data]\n" + line + "\n"; }
std::string opt(const std::string& line) { return "[optimizer]\n" + line + "\n"; }

}  // namespace

TEST_CASE("B31: numbers are taken as TOML means them") {
  CHECK(parse(opt("learning_rate = 1")).lr == 1.0);
  CHECK(parse(opt("learning_rate = 1e-4")).lr == 0.0001);
  CHECK(parse(data("batch = 1_000")).batch == 1000);
  CHECK(parse(data("batch = 0x10")).batch == 16);
  CHECK(parse(data("shuffle = false")).shuffle == false);
  CHECK(parse(opt("decay = [0, 0.5]")).decay == std::vector<double>{0.0, 0.5});
  CHECK(parse("data.devices = [1, 2]").devices == std::vector<std::int64_t>{1, 2});
  CHECK(parse("length = 500").length == "500");
  CHECK(parse("length = \"10krows\"").length == "10krows");
}

TEST_CASE("B31: wrong types are refused with file, line, key, found and expected") {
  CHECK(fault(data("batch = 8.0")) ==
        "run.toml:2:1: key 'data.batch': found float 8.0, expected integer in [1, 1000000]; write "
        "it without a point: batch = 8");
  CHECK_THAT(fault(data("batch = 8.5")), Catch::Contains("found float 8.5, expected integer"));
  CHECK_THAT(fault(data("batch = \"8\"")), Catch::Contains("found string \"8\", expected integer"));
  CHECK_THAT(
      fault(opt("learning_rate = \"0.1\"")),
      Catch::Contains("key 'optimizer.learning_rate': found string \"0.1\", expected float"));
  CHECK_THAT(fault(data("shuffle = 1")),
             Catch::Contains("found integer 1, expected true or false"));
  CHECK_THAT(fault(data("shuffle = \"false\"")), Catch::Contains("found string \"false\""));
  CHECK_THAT(fault(data("devices = 0")),
             Catch::Contains("found integer 0, expected list of integers"));
  CHECK_THAT(fault(data("devices = [0, 1.5]")),
             Catch::Contains("run.toml:2:15") && Catch::Contains("found float 1.5"));
  CHECK_THAT(fault("loss = 1979-05-27"), Catch::Contains("found date"));
  CHECK_THAT(fault("length = \"5x\""), Catch::Contains("expected a length such as"));
}

TEST_CASE("B31: the command line goes through the same checks") {
  CHECK(parse("", {"data.batch=64", "optimizer.learning_rate = 1"}).batch == 64);
  CHECK(parse("", {"loss=sum"}).loss == "sum");
  CHECK(parse("", {"length=2e"}).length == "2e");
  CHECK(parse("", {"data.hooks=[\"a\", \"b\"]"}).hooks.size() == 2);
  CHECK(parse("", {"data={batch=7}"}).batch == 7);
  CHECK(parse(data("batch = 8"), {"data.batch=9"}).batch == 9);
  CHECK(fault("", {"optimizer.learning_rate=0,1"}) ==
        "--set: key 'optimizer.learning_rate': found string \"0,1\", expected float >= 0");
  CHECK_THAT(fault("", {"data.batch=8x"}),
             Catch::Contains("found string \"8x\", expected integer"));
  CHECK_THAT(fault("", {"data.batch"}), Catch::Contains("expected table.key=value"));
  CHECK_THAT(fault("", {"data..batch=1"}), Catch::Contains("not an assignment"));
  CHECK_THAT(fault("", {"data.batch="}), Catch::Contains("key 'data.batch'"));
  CHECK_THAT(fault("", {"loss=\"sum"}), Catch::Contains("--set: key 'loss'"));
  CHECK_THAT(fault("", {"data.batch=1\nevil=2"}), Catch::Contains("expected integer"));
  CHECK_THAT(fault("", {"data.bacth=1"}), Catch::Contains("did you mean 'batch'?"));
}

TEST_CASE("B31: text that is not TOML is refused by line and key") {
  CHECK_THAT(fault(data("batch = 8x")), Catch::Contains("run.toml:2:") &&
                                            Catch::Contains("key 'data.batch' is not valid TOML"));
  CHECK_THAT(fault("[data\nbatch = 1"), Catch::Contains("run.toml:1:"));
  CHECK_THAT(fault(data("batch = 1\nbatch = 2")), Catch::Contains("run.toml:3:"));
}

TEST_CASE("B32: nonsense numbers are refused with the allowed range") {
  for (const char* line : {"batch = 0", "batch = -8", "batch = 9223372036854775808",
                           "batch = 1000001", "batch = nan"}) {
    CAPTURE(line);
    CHECK_THAT(fault(data(line)), Catch::Contains("key 'data.batch'"));
  }
  CHECK(fault(data("batch = 0")) ==
        "run.toml:2:1: key 'data.batch': found integer 0, expected integer in [1, 1000000]");
  for (const char* line : {"learning_rate = -0.1", "learning_rate = nan", "learning_rate = inf",
                           "learning_rate = 1e400", "momentum = 1.0", "momentum = 1.5",
                           "momentum = -0.1", "decay = [nan]"}) {
    CAPTURE(line);
    CHECK_THAT(fault(opt(line)),
               Catch::Contains("key 'optimizer.") && Catch::Contains("run.toml:2:"));
  }
  CHECK_THAT(fault(opt("momentum = 1.0")), Catch::Contains("expected float in [0, 1)"));
  CHECK_THAT(fault("towers = 1000000"), Catch::Contains("[1, 1024]"));
  CHECK_THAT(fault("loss = \"summ\""), Catch::Contains("expected one of 'mean', 'sum'") &&
                                           Catch::Contains("did you mean 'sum'?"));
}

TEST_CASE("B32: limits hold for structs that code fills") {
  Config config;
  config.optimizer().validate("momentum");
  config.momentum = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(config.optimizer().validate("momentum"),
                    "momentum: 'momentum': found nan, expected a finite number in [0, 1)");
  config.momentum = 0.5;
  config.lr = 11;
  CHECK_THROWS_WITH(config.optimizer().validate("momentum"),
                    "momentum: a rate above 10 needs momentum 0");
  config.length = "5x";
  CHECK_THROWS_AS(config.top().validate("trainer"), ConfigError);
}

TEST_CASE("B16: unknown keys and tables name the nearest valid one, all at once") {
  CHECK(fault(opt("learning_rat = 0.5")) ==
        "run.toml:2:1: unknown key 'optimizer.learning_rat'; did you mean 'learning_rate'?");
  CHECK(fault("learning_rate = 0.5") ==
        "run.toml:1:1: unknown key 'learning_rate'; 'learning_rate' belongs to [optimizer]");
  CHECK(fault("[optimiser]\nlr = 1") ==
        "run.toml:1:1: unknown table [optimiser]; did you mean [optimizer]?");
  CHECK(fault(data("Batch = 8")) ==
        "run.toml:2:1: unknown key 'data.Batch'; did you mean 'batch'?");
  CHECK(fault(opt("beta2 = 0.9")) ==
        "run.toml:2:1: unknown key 'optimizer.beta2': expected one of learning_rate, decay, "
        "momentum");
  CHECK(fault("", {"optimiser.lr=1"}) ==
        "--set: unknown table [optimiser]; did you mean [optimizer]?");
  CHECK(fault("optimizer = 3") == "run.toml:1:1: unknown key 'optimizer'; [optimizer] is a table");
  CHECK(fault("towers = 0\n[data]\nbacth = 1\n[zebra]\n[zebra.inner]\n", {"data.batch=x"}) ==
        "4 faults in the config\n"
        "  --set: key 'data.batch': found string \"x\", expected integer in [1, 1000000]\n"
        "  run.toml:1:1: key 'towers': found integer 0, expected integer in [1, 1024]\n"
        "  run.toml:3:1: unknown key 'data.bacth'; did you mean 'batch'?\n"
        "  run.toml:4:1: unknown table [zebra]: expected one of [data], [optimizer]");
}

TEST_CASE("Rules, callers' faults and peeked names join the list") {
  CHECK(fault(opt("learning_rate = 11")) ==
        "run.toml:1:1: [optimizer]: a rate above 10 needs momentum 0");
  Config config;
  Document doc = Document::from_text("[optimizer]\nname = \"sgd\"\n", "run.toml");
  CHECK(doc.peek_string("optimizer", "name", "adam") == "sgd");
  CHECK(doc.peek_string("model", "name", "mlp") == "mlp");
  CHECK(doc.has_table("optimizer"));
  CHECK_FALSE(doc.has_table("model"));
  config.bind(doc);
  doc.fault("optimizer", "name", "unknown optimizer");
  CHECK_THROWS_WITH(doc.finish(), "run.toml:2:1: key 'optimizer.name': unknown optimizer");
  Document other = Document::from_text("[optimizer]\nname = 3\n", "run.toml");
  CHECK(other.peek_string("optimizer", "name", "adam") == "adam");
  CHECK_THROWS_WITH(other.finish(), Catch::Contains("found integer 3, expected string"));
}

TEST_CASE("The dump is the effective config and parses back to itself") {
  const auto dump = [](const std::string& text) {
    Config config;
    Document doc = Document::from_text(text, "run.toml");
    doc.peek_string("optimizer", "name", "sgd");
    config.bind(doc);
    doc.finish();
    return doc.dump();
  };
  const std::string first =
      dump("[data]\nhooks = [\"a\\n\\\"b\\\\\"]\n[optimizer]\nlearning_rate = 1");
  CHECK(first ==
        "towers = 1\nloss = \"mean\"\nlength = \"5e\"\n\n[optimizer]\nname = \"sgd\"\n"
        "learning_rate = 1.0\ndecay = []\nmomentum = 0.9\n\n[data]\nbatch = 32\nshuffle = true\n"
        "devices = []\nhooks = [\"a\\u000a\\\"b\\\\\"]\n");
  CHECK(dump(first) == first);
}

TEST_CASE("describe() adds type, default, unit and help") {
  Config config;
  Document doc = Document::from_text("", "run.toml");
  config.bind(doc);
  doc.finish();
  CHECK_THAT(doc.describe(),
             Catch::Contains("# integer in [1, 1000000], default 32, unit rows. Rows of an update\n"
                             "batch = 32\n"));
}

TEST_CASE("A config that is not there is refused by path") {
  CHECK_THROWS_WITH(Document::from_file("/nowhere/x.toml"),
                    "/nowhere/x.toml: cannot open the file: found No such file or directory");
  CHECK_THROWS_AS(Document::from_file("/tmp"), ConfigError);
}

TEST_CASE("Keys of other plug-ins, indices and tables that differ") {
  Document doc = Document::from_text(
      "[a]\nfile = \"x\"\nlist = [1, 2]\n[b]\nfile = \"y\"\nlist = [1, 2]\n[c]\nhidden = 1\n", "t");
  CHECK(doc.differs("b", "file", "a"));
  CHECK_FALSE(doc.differs("b", "list", "a"));
  CHECK_FALSE(doc.differs("b", "none", "a"));
  doc.note_owner("c", "hidden", "model", "mlp");
  std::string file, label = "x";
  std::vector<std::int64_t> list;
  Schema keys, none;
  keys.key("file", file).key("list", list);
  doc.bind("a", keys);
  doc.bind("b", keys);
  doc.bind("c", none);
  CHECK_THROWS_WITH(doc.finish(), "t:8:1: unknown key 'c.hidden'; 'hidden' belongs to model 'mlp'");
  const auto label_of = [&label](const KeyOptions& options) {
    Document d = Document::from_text("label = -1", "t");
    Schema s;
    s.key("label", label, options);
    d.bind("", s);
    d.finish();
    return label;
  };
  CHECK(label_of({.index = true}) == "-1");
  CHECK_THROWS_WITH(label_of({}), Catch::Contains("write it as a string: label = \"-1\""));
}

TEST_CASE("A name that begins like another is near") {
  CHECK(nearest_name("batchsize", {"epochs", "batch", "seed"}) == "batch");
  CHECK(nearest_name("thr", {"threads", "seed"}) == "threads");
  CHECK(nearest_name("lr", {"learning"}).empty());
}
