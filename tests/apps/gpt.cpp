// SPDX-License-Identifier: MIT
// A gpt through the command: text in, resume, samples, and what is refused.
#include <algorithm>
#include <cmath>
#include <regex>

#include "belfry/apps/cli/sample_internal.h"
#include "belfry/core/error.h"
#include "belfry/core/philox.h"
#include "belfry/tests/apps/cli.h"
#include "belfry/tests/real_data.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/session.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

// A folder with text.txt, run.toml and, once trained, out/.
struct GptFolder {
  explicit GptFolder(const std::string& data = "name = \"text\"\nfiles = [\"text.txt\"]\n") {
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += "the cat " + std::string(i % 3 == 0 ? "sat" : "ran") + " on the mat.\n";
    write_text(folder / "text.txt", text);
    write_text(path(), "towers = \"cpu:2\"\nbatch = 8\nepochs = 3\noutput = \"" + out() +
                           "\"\n[model]\nname = \"gpt\"\nlayers = 1\nwidth = 16\nheads = 2\n"
                           "dropout = 0.1\n[data]\n" +
                           data +
                           "part = \"train\"\ncontext = 16\n[validation]\npart = \"validation\"\n"
                           "[test]\npart = \"validation\"\n[optimizer]\nname = \"adamw\"\n"
                           "lr = 1e-2\nclip = \"global_norm\"\nclip_limit = 1.0\n[checkpoint]\n"
                           "every = \"1e\"\nkeep = 10\n");
  }
  CliResult run(std::vector<std::string> arguments, const std::string& command = "train") const {
    arguments.insert(arguments.begin(), {command, path()});
    return run_cli(arguments);
  }
  std::string path() const { return folder / "run.toml"; }
  std::string out() const { return folder / "out"; }
  TestFolder folder;
};

std::string newest_weights(const std::string& folder) {
  return read_text(newest_checkpoint(folder, false, Log()) + "/model.safetensors");
}

std::string sampled(const GptFolder& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {"--sample", "40"});
  const CliResult r = folder.run(more, "eval");
  INFO(r.err);
  REQUIRE(r.code == 0);
  return r.out;
}

}  // namespace

TEST_CASE("a gpt trains on a text file, is evaluated in nats a byte, and its samples are fixed") {
  const GptFolder folder;
  const CliResult trained = folder.run({});
  CAPTURE(trained.err, trained.out);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.out, Contains("text: 6480 bytes, 404 rows, tokens [16] i32, label [16] i32"));
  CHECK_THAT(trained.out, Contains("nats/byte perplexity"));
  std::smatch match;
  REQUIRE(std::regex_search(trained.out, match,
                            std::regex("test: loss ([0-9.]+) nats/byte perplexity ([0-9.]+)")));
  const double loss = std::stod(match[1]);
  CHECK(loss < 2.2);  // of equal chances: 5.5
  CHECK(std::stod(match[2]) == Approx(std::exp(loss)).epsilon(1e-3));

  const std::string text = sampled(folder, {"--prompt", "the c"});
  CHECK(text.size() == 5 + 40 + 1);
  CHECK(text.substr(0, 5) == "the c");
  CHECK(sampled(folder, {"--prompt", "the c", "--towers", "cpu:3"}) == text);
  CHECK(sampled(folder, {"--prompt", "the c", "--sample-seed", "2"}) != text);
  const std::string likeliest = sampled(folder, {"--prompt", "the c", "--temperature", "0"});
  CHECK(sampled(folder, {"--prompt", "the c", "--top-k", "1"}) == likeliest);
  CHECK(sampled(folder, {}).size() == 40 + 1);

  const CliResult rows = folder.run({"--predictions", "-"}, "eval");
  CHECK(rows.code == 0);
  CHECK(rows.out.starts_with("row,position,label,prediction,probability\n0,0,"));
  CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 1 + 44 * 16);
}

TEST_CASE("the likeliest text is that of whole passes, beyond the context too") {
  const GptFolder folder;
  REQUIRE(folder.run({}).code == 0);
  const std::string got = sampled(folder, {"--prompt", "the c", "--temperature", "0"});

  TrainConfig config = TrainConfig::load(Document::from_file(folder.path()), builtin());
  config.towers = "cpu:1", config.threads_per_tower = 1;
  TrainSession session(std::move(config), Log());
  Checkpoint(newest_checkpoint(folder.out(), false, Log()), session.group())
      .load({.optimizer = false});
  std::string text = "the c";
  Loader one(session.context(), session.first_row(), {.batch = 1, .shuffle = false, .prefetch = 0});
  session.group().evaluate(one, [&](Module& m, const Batch& b, Step& step) {
    for (int i = 0; i < 40; ++i) {
      std::vector<double> tokens;
      for (const char c : text.substr(text.size() - std::min<std::size_t>(text.size(), 16)))
        tokens.push_back(static_cast<unsigned char>(c));
      const auto n = static_cast<std::int64_t>(tokens.size());
      const std::vector<double> logits =
          static_cast<Classifier&>(m)
              .forward(Tensor::from(tokens, {1, n}, DType::i32, session.context().device(0)))
              .to_vector();
      const auto last = logits.end() - 256;
      text += static_cast<char>(std::max_element(last, logits.end()) - last);
    }
    return session.loss(session.config().data)(m, b, step);
  });
  CHECK(got == text + "\n");
}

TEST_CASE("a gpt that was stopped and resumed has the bits of an uninterrupted run") {
  const GptFolder whole, part;
  REQUIRE(whole.run({}).code == 0);
  REQUIRE(part.run({"--set", "epochs=1"}).code == 0);
  REQUIRE(part.run({"--resume"}).code == 0);
  CHECK(newest_weights(part.out()) == newest_weights(whole.out()));
}

TEST_CASE("token files: numbers as prompt and sample") {
  const GptFolder folder(
      "name = \"tokens\"\nfiles = [\"text.txt\"]\ndtype = \"u16\"\nvocabulary = 32768\n");
  const CliResult trained = folder.run({"--set", "epochs=1"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.out, Contains("nats/token perplexity"));
  const std::string text = sampled(folder, {"--prompt", "29300 101"});
  CHECK(text.starts_with("29300 101 "));
  CHECK(std::count(text.begin(), text.end(), ' ') == 42);
  for (const char* wrong : {"the", "40000", "1,2", "-3"}) {
    const CliResult r = folder.run({"--sample", "4", "--prompt", wrong}, "eval");
    CHECK(r.code == 2);
    CHECK_THAT(r.err, Contains("[0, 32768)"));
  }
}

TEST_CASE("what a gpt or a sample cannot do is refused with a reason") {
  const GptFolder folder;
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& words,
                           const std::string& command = "eval") {
    const CliResult r = folder.run(std::move(arguments), command);
    CAPTURE(r.err);
    CHECK(r.code == code);
    CHECK_THAT(r.err, Contains(words));
  };
  refused({"--sample", "0"}, 2, "at least 1");
  refused({"--sample", "5", "--temperature", "-1"}, 2, "--temperature");
  refused({"--sample", "5", "--top-k", "-1"}, 2, "--top-k");
  refused({"--prompt", "x"}, 2, "needs --sample");
  refused({"--sample", "5", "--predictions", "x.csv"}, 2, "two commands");
  refused({"--sample", "5"}, 6, "does not exist");
  refused({"--set", "model.heads=3"}, 2, "heads = 3", "train");
  refused({"--set", "model.context=8"}, 2, "at least 16", "train");
  refused({"--set", "model.name=mlp"}, 2, "layers", "train");
  const CliFolder images;
  const CliResult r =
      run_cli({"train", images.path(), "--set", "model.name=gpt", "--set", "model={name=\"gpt\"}"});
  CAPTURE(r.err);
  CHECK(r.code != 0);
  REQUIRE(run_cli({"train", images.path()}).code == 0);
  const CliResult none = run_cli({"eval", images.path(), "--sample", "5"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("text or tokens"));
}

TEST_CASE("a model and data that do not belong together are named") {
  const GptFolder folder;
  write_text(folder.path(),
             "[model]\nname = \"softmax\"\n[data]\nname = \"text\"\nfiles = "
             "[\"text.txt\"]\n");
  const CliResult r = folder.run({});
  CHECK(r.code == 3);
  CHECK_THAT(r.err, Contains("no field 'image'") && Contains("softmax"));
}

TEST_CASE("the next token falls into the distribution, and top_k cuts it") {
  const std::vector<double> logits{std::log(0.1), std::log(0.6), std::log(0.3)};
  std::vector<double> share(3);
  constexpr int kDraws = 20000;
  const Philox random = philox_key(1, Purpose::test);
  for (std::uint32_t i = 0; i < kDraws; ++i)
    share[static_cast<std::size_t>(next_token(
        logits, 1, 0, static_cast<double>(unit_float(random(i, 0, 0, 0).v[0]))))] += 1.0 / kDraws;
  CHECK(share[0] == Approx(0.1).margin(0.01));
  CHECK(share[1] == Approx(0.6).margin(0.01));
  for (const double draw : {0.0, 0.3, 0.999}) {
    CHECK(next_token(logits, 1, 1, draw) == 1);
    CHECK(next_token(logits, 0, 0, draw) == 1);
    CHECK(next_token(logits, 1, 2, draw) == (draw < 0.6 / 0.9 ? 1 : 2));
  }
  CHECK(next_token({0, 0, 0, 0}, 1, 2, 0.999) == 1);  // of equals the first
  CHECK_THROWS_AS(next_token({0, std::nan("")}, 1, 0, 0.5), NumericError);
}

TEST_CASE("Shakespeare's bytes: half an epoch of the config beats pairs of bytes", "[slow]") {
  const auto train = real_data("text/shakespeare/train.txt"),
             val = real_data("text/shakespeare/val.txt");
  if (!train || !val) return;
  const TestFolder folder;
  const CliResult r = run_cli(
      {"train", std::string(BELFRY_SOURCE_DIR) + "/apps/configs/gpt-shakespeare.toml", "--set",
       "output=" + (folder / "out"), "--set", "data.files=['" + *train + "']", "--set",
       "validation.files=['" + *val + "']", "--set", "epochs=1", "--set", "data.count=500000",
       "--set", "batch=8", "--set", "schedule.over=1e", "--set", "log.every=1000"});
  CAPTURE(r.err, r.out);
  REQUIRE(r.code == 0);
  std::smatch match;
  REQUIRE(
      std::regex_search(r.out, match, std::regex("validation at update [0-9]+: loss ([0-9.]+)")));
  WARN("validation " << match[1] << " nats a byte");
  CHECK(std::stod(match[1]) < 2.48);  // what pairs of bytes alone give
}
