// SPDX-License-Identifier: MIT
// Resuming: which checkpoints a run's folder keeps, what a load may change, refused updates.
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "belfry/core/checksum.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

using Updates = std::vector<std::int64_t>;

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

// Variables of 2 numbers by name.
TowerGroupBase::Factory named(std::vector<std::string> names) {
  struct Named : Module {
    explicit Named(const std::vector<std::string>& names) {
      for (const std::string& name : names)
        variables.push_back(std::make_unique<Variable>(*this, name, Shape{2}, Init::zeros()));
    }
    std::vector<std::unique_ptr<Variable>> variables;
  };
  return [names] { return std::make_unique<Named>(names); };
}

// All arrays of a kind and variable at one value.
void fill(TowerGroupBase& group, const std::string& kind, const std::string& variable,
          float value) {
  auto arrays = group.arrays();
  std::erase_if(arrays, [&](const GroupArray& a) { return a.kind == "ema" && kind != "ema"; });
  for (GroupArray& a : arrays)
    if (a.kind == kind && a.variable == variable) a.values.assign(a.values.size(), value);
  group.set_arrays(arrays);
}

std::vector<float> values_of(TowerGroupBase& group, const std::string& kind,
                             const std::string& variable) {
  for (const GroupArray& a : group.arrays())
    if (a.kind == kind && a.variable == variable) return a.values;
  return {};
}

std::int64_t steps_of(TowerGroupBase& group, const std::string& variable) {
  for (const auto& [name, count] : group.clocks().steps)
    if (name == variable) return count;
  return -1;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no CheckpointError";
}

void change_manifest(const std::string& folder, const std::function<void(nlohmann::json&)>& f) {
  auto json = nlohmann::json::parse(read_text(folder + "/manifest.json"));
  f(json);
  write_text(folder + "/manifest.json", Manifest::sealed(json.dump()));
}

// LIN whose loss is not a number at some updates.
LossFn nan_at(std::vector<std::int64_t> updates) {
  return [updates](Module& m, const Batch& b, Step& s) {
    Loss out = lin_loss(m, b, s);
    if (std::find(updates.begin(), updates.end(), s.update) != updates.end())
      out.mean = mul(out.mean, Tensor::from({std::numeric_limits<double>::quiet_NaN()}, {},
                                            DType::f32, b["x"].device()));
    return out;
  };
}

// One update an epoch, saved every epoch.
TrainResult saved_run(const std::string& folder, std::int64_t epochs, const std::string& resume,
                      const std::string& keys, const Log& log = {}, bool fallback = false) {
  LinRun run(1, epochs, lin_momentum(), 8, 8, log);
  return run.train({.output = folder, .resume = resume, .fallback = fallback},
                   {make_hook("checkpoint", "every = \"1e\"\n" + keys)});
}

// A hook of two functions.
struct Watch : Hook {
  std::string name() const override { return "watch"; }
  void check(const TrainRun&) override {
    if (on_check) on_check();
  }
  void on_epoch(TrainRun&, std::int64_t done) override { epochs.push_back(done); }
  void on_skipped(TrainRun& run) override { skipped.push_back(run.result.update); }
  std::function<void()> on_check;
  Updates epochs, skipped;
};

}  // namespace

TEST_CASE("resumed from an older checkpoint: its own saves stay, later ones are put aside") {
  const TestFolder folder;
  saved_run(folder.path(), 6, "", "keep = 9");
  Messages messages;
  saved_run(folder.path(), 4, folder / "step_2", "keep = 2", messages.log());
  CHECK(list_checkpoints(folder.path()) == Updates{3, 4});
  CHECK(newest_checkpoint(folder.path(), false, {}) == (folder / "step_4"));
  CHECK_FALSE(std::filesystem::exists(folder / "step_4.left"));  // passed by, with `keep` new ones
  for (const char* left : {"step_5.left", "step_6.left"})
    CHECK(std::filesystem::exists(folder / left + "/manifest.json"));
  CHECK_THAT(messages.text, Contains("warning: ") && Contains("step_6.left"));
  prune_checkpoints(folder.path(), 1, 3);
  CHECK(list_checkpoints(folder.path()) == Updates{3, 4});
}

TEST_CASE("fallback over a damaged newer checkpoint: what is saved then is not pruned") {
  const TestFolder folder;
  saved_run(folder.path(), 3, "", "keep = 3");
  for (const char* name : {"step_2", "step_3"})
    write_text(folder / name + "/model.safetensors", "damaged");
  LinRun run(1, 9, lin_momentum());
  TrainerOptions options{.output = folder.path(), .resume = "newest", .fallback = true};
  options.signal = [&run] { return run.group.clocks().update >= 2 ? 15 : 0; };
  run.train(options, {make_hook("checkpoint", "every = \"1e\"\nkeep = 1")});
  CHECK(list_checkpoints(folder.path()) == Updates{2});
  CHECK(newest_checkpoint(folder.path(), false, {}) == (folder / "step_2"));
  CHECK(std::filesystem::exists(folder / "step_3.left"));
}

TEST_CASE("a checkpoint of another folder does not continue in one that holds a run") {
  const TestFolder one, two;
  saved_run(one.path(), 2, "", "");
  saved_run(two.path(), 1, "", "");
  const auto before = contents(two.path());
  CHECK_THROWS_WITH(saved_run(two.path(), 3, one / "step_2", ""), Contains("already holds a run"));
  CHECK_THROWS_WITH(saved_run(two.path(), 3, one.path(), ""), Contains("already holds a run"));
  CHECK(contents(two.path()) == before);
  CHECK(saved_run(one / "new", 3, one / "step_2", "").updates == 1);
  CHECK(saved_run(two.path(), 2, two / "step_1/", "").updates == 1);
  CHECK(saved_run(two.path(), 3, two.path(), "").updates == 1);
}

TEST_CASE("a manifest with clocks that make no sense leaves the group as it was") {
  const TestFolder folder;
  Context context({.towers = "cpu:1"});
  TowerGroupBase saved(context, lin_momentum(), named({"a"})),
      group(context, lin_momentum(), named({"a"}));
  fill(saved, "parameter", "a", 3);
  Checkpoint(folder / "c", saved).save();
  const std::string manifest = read_text(folder / "c/manifest.json"),
                    before = group.parameter_hash();
  using Json = nlohmann::json;
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> faults{
      {"noise statistics", [](Json& c) { c["statistics"] = {1}; }},
      {"\"update\": -1", [](Json& c) { c["update"] = -1; }},
      {"\"attempts\": -5", [](Json& c) { c["attempts"] = -5; }},
      {"\"rows\": 1.5", [](Json& c) { c["rows"] = 1.5; }},
      {"\"updates\": -2", [](Json& c) { c["steps"][0]["updates"] = -2; }},
      {"\"update\": 18446744073709551615", [](Json& c) { c["update"] = ~std::uint64_t{0}; }}};
  for (const auto& [text, fault] : faults) {
    write_text(folder / "c/manifest.json", manifest);
    change_manifest(folder / "c", [&](Json& json) { fault(json["clocks"]); });
    CHECK_THAT(refusal([&] { Checkpoint(folder / "c", group).load(); }), Contains(text));
    CHECK(group.parameter_hash() == before);
  }
}

TEST_CASE("a partial load: no step count without its state, under another rule or in the file") {
  const TestFolder folder;
  Context context({.towers = "cpu:1"});
  TowerGroupBase saved(context, lin_momentum(), named({"a", "b"}));
  for (const char* v : {"a", "b"}) fill(saved, "velocity", v, 4);
  saved.set_clocks({.update = 5, .attempts = 6, .rows = 40, .steps = {{"a", 5}, {"b", 5}}});
  Checkpoint(folder / "c", saved).save();
  TowerGroupBase other(context, adam(), named({"a", "b"}));
  other.set_clocks({.steps = {{"b", 3}}});
  fill(other, "mean", "b", 1);
  Checkpoint(folder / "c", other).load({.partial = true});
  CHECK(steps_of(other, "a") == 0);
  CHECK(steps_of(other, "b") == 0);
  CHECK(other.clocks().attempts == 6);
  CHECK(values_of(other, "mean", "b") == std::vector<float>(2, 0.f));
  TowerGroupBase more(context, lin_momentum(), named({"a", "c"}));
  more.set_clocks({.steps = {{"a", 1}, {"c", 9}}});
  fill(more, "velocity", "c", 1);
  Checkpoint(folder / "c", more).load({.partial = true});
  CHECK(steps_of(more, "a") == 5);
  CHECK(values_of(more, "velocity", "a") == std::vector<float>(2, 4.f));
  CHECK(steps_of(more, "c") == 0);
  CHECK(values_of(more, "velocity", "c") == std::vector<float>(2, 0.f));
}

TEST_CASE("an average that is new in a partial load starts at the loaded parameters") {
  const TestFolder folder;
  Context context({.towers = "cpu:1"});
  TowerGroupBase saved(context, lin_momentum(), named({"a"}));
  fill(saved, "parameter", "a", 2);
  Checkpoint(folder / "c", saved).save();
  TowerGroupBase group(context, lin_momentum().with_ema(0.9), named({"a"}));
  fill(group, "ema", "a", -7);
  CHECK_THAT(refusal([&] { Checkpoint(folder / "c", group).load(); }), Contains("'ema/a'"));
  Checkpoint(folder / "c", group).load({.optimizer = false, .ema = false});
  CHECK(group.parameter("a") == std::vector<float>(2, 2.f));
  fill(group, "ema", "a", -7);
  Checkpoint(folder / "c", group).load({.partial = true});
  CHECK(values_of(group, "ema", "a") == std::vector<float>(2, 2.f));
}

TEST_CASE("a manifest nested 400,000 deep, and a tensor of rank 8, are CheckpointErrors") {
  const TestFolder folder;
  Context context({.towers = "cpu:1"});
  TowerGroupBase group(context, sgd(), named({"a"}));
  Checkpoint(folder / "c", group).save();
  const std::string deep = std::string(400000, '[') + std::string(400000, ']');
  for (const std::string& text : {"{\"kind\": " + deep + "}", deep,
                                  "{\"kind\": \"belfry checkpoint\", \"format\": " + deep + "}"})
    CHECK_THAT(refusal([&] { Manifest::parse(text, "m.json"); }), Contains("nested deeper"));
  CHECK_THAT(refusal([&] { Manifest::parse("{\"kind\": [1]}", "m.json"); }), Contains("array"));
  const std::vector<float> values{1, 2};
  const std::vector<safetensors::Tensor> tensors{
      {"a", "F32", {2, 1, 1, 1, 1, 1, 1, 1}, std::as_bytes(std::span(values))}};
  const auto bytes = safetensors::encode(tensors);
  write_file_atomically(folder / "c/model.safetensors", bytes);
  change_manifest(folder / "c", [&](nlohmann::json& json) {
    for (auto& file : json["files"])
      if (file["name"] == "model.safetensors") {
        file["bytes"] = bytes.size();
        file["xxh3"] = checksum_hex(bytes);
      }
  });
  CHECK_THAT(refusal([&] { Checkpoint(folder / "c", group).load(); }),
             Contains("[2, 1, 1, 1, 1, 1, 1, 1] in the checkpoint, [2] here"));
}

TEST_CASE("a skipped update does not move periods: epochs, validation and checkpoints go on",
          "[given]") {
  const TestFolder folder;
  Messages messages;
  LinRun run(1, 3, lin_momentum(), 8, 4, messages.log());  // 2 updates an epoch
  int validations = 0;
  run.evaluate = [&] {
    ++validations;
    return EvalReport{.rows = 8, .loss = 1};
  };
  const auto watch = std::make_shared<Watch>();
  const std::vector<std::shared_ptr<Hook>> hooks{
      make_hook("guard", "skip = 2"), make_hook("validation"), watch,
      make_hook("checkpoint", "every = \"1e\"\nkeep = 9\nmetric = \"loss\"")};
  CHECK(run.train({.output = folder.path()}, hooks, nan_at({2, 6})).complete);
  CHECK(list_checkpoints(folder.path()) == Updates{2, 4, 6});
  CHECK(validations == 3);
  CHECK(watch->epochs == Updates{1, 2, 3});
  CHECK(watch->skipped == Updates{2, 6});
  LinRun rest(1, 4, lin_momentum(), 8, 4, messages.log());
  rest.train({.output = folder.path(), .resume = "newest"}, {make_hook("checkpoint")});
  CHECK_THAT(messages.text, Contains("step_6 at update 6, "));  // 4 of them were applied
}

TEST_CASE("a group that has been trained before: the trainer's updates count on from there") {
  const TestFolder folder;
  LinRun run(1, 3, lin_momentum());
  Loader first(run.context, lin_data(8), {.batch = 8, .shuffle = false});
  Batch batch;
  REQUIRE(first.next(batch));
  run.group.step(batch, lin_loss);
  run.train({.output = folder.path()}, {make_hook("checkpoint", "every = \"2u\"\nkeep = 9")});
  CHECK(list_checkpoints(folder.path()) == Updates{2, 4});
}

TEST_CASE("a run removes what killed saves left, and takes back what one had moved aside") {
  const TestFolder folder;
  for (const char* name :
       {"step_7.tmp-12-0", "best.tmp-12-1", "best.tmp-12-1.old", "notes.tmp-1"}) {
    std::filesystem::create_directories(folder / name);
    write_text(folder / name + "/file", name);
  }
  Messages messages;
  saved_run(folder.path(), 1, "", "", messages.log());
  CHECK_FALSE(std::filesystem::exists(folder / "step_7.tmp-12-0"));
  CHECK_FALSE(std::filesystem::exists(folder / "best.tmp-12-1"));
  CHECK_FALSE(std::filesystem::exists(folder / "best.tmp-12-1.old"));
  CHECK(read_text(folder / "best/file") == "best.tmp-12-1.old");
  CHECK(std::filesystem::exists(folder / "notes.tmp-1"));
  CHECK_THAT(messages.text, Contains("warning: ") && Contains("taken back"));
}

TEST_CASE("folders of a run and of a checkpoint are flushed to their parents") {
  struct Recording : FileOps {
    int sync_directory(const std::string& path) override {
      synced.push_back(std::filesystem::path(path).filename().string());
      return FileOps::sync_directory(path);
    }
    std::vector<std::string> synced;
  } lock_files, save_files;
  const TestFolder folder;
  const std::string top = std::filesystem::path(folder.path()).filename().string();
  const FolderLock lock(folder / "out/run", lock_files);
  CHECK(lock_files.synced == std::vector<std::string>{top, "out"});
  LinRun run(1, 1, lin_momentum());
  Checkpoint(folder / "x/y/c", run.group, save_files).save();
  REQUIRE(save_files.synced.size() == 4);
  CHECK(save_files.synced[0] == top);
  CHECK(save_files.synced[1] == "x");
  CHECK(save_files.synced[3] == "y");
}

TEST_CASE("a resumed run replaces its metrics as a whole: a crash before loses no line") {
  const TestFolder folder;
  const auto train = [&](std::int64_t epochs, const std::string& resume, const std::string& keys) {
    LinRun run(1, epochs, lin_momentum());
    run.train({.output = folder.path(), .resume = resume},
              {make_hook("jsonl", keys), make_hook("checkpoint")});
  };
  train(2, "", "");
  const std::string before = read_text(folder / "metrics.jsonl");
  std::filesystem::create_hard_link(folder / "metrics.jsonl", folder / "link");
  train(3, "newest", "");
  CHECK(read_text(folder / "link") == before);  // the old file was never cut
  CHECK(read_text(folder / "metrics.jsonl").starts_with(before));
  CHECK_FALSE(std::filesystem::exists(folder / "metrics.jsonl.tmp"));
  CHECK_THAT(refusal([&] { train(4, "newest", "jsonl = \"link/m.jsonl\""); }), Contains("link"));
}

TEST_CASE("an old checkpoint that cannot be removed is a warning, and the others still go") {
  struct Busy : FileOps {
    int remove_all(const std::string& path) override {
      if (path.find("step_1.tmp-") == path.npos) return FileOps::remove_all(path);
      errno = EBUSY;
      return -1;
    }
  } busy;
  const TestFolder folder;
  Messages messages;
  LinRun run(1, 4, lin_momentum(), 8, 8, messages.log());
  const TrainResult result = run.train({.output = folder.path(), .files = &busy},
                                       {make_hook("checkpoint", "every = \"1e\"\nkeep = 1")});
  CHECK(result.complete);
  CHECK(list_checkpoints(folder.path()) == Updates{4});
  CHECK_THAT(messages.text, Contains("warning: ") && Contains("cannot remove an old checkpoint"));
}

TEST_CASE("the folder's lock comes before a look at the folder, and after it a second look") {
  const TestFolder folder;
  saved_run(folder / "out", 2, "", "");
  {
    const FolderLock held(folder / "out");
    CHECK_THROWS_WITH(saved_run(folder / "out", 3, "", ""), Contains("another run writes"));
    LinRun run(1, 3, lin_momentum());
    CHECK_THROWS_WITH(run.train({.output = folder / "out", .resume = "newest"}, {}),
                      Contains("another run writes"));
    CHECK(run.w() == 0);  // nothing was loaded
  }
  for (const char* resume : {"", "newest"}) {
    LinRun first(1, 1, lin_momentum()), late(1, 1, lin_momentum());
    const std::string output = folder / ("new" + std::string(resume));
    const auto watch = std::make_shared<Watch>();
    watch->on_check = [&] {
      if (!std::filesystem::exists(output))
        first.train({.output = output}, {make_hook("checkpoint")});
    };
    CHECK_THROWS_WITH(
        late.train({.output = output, .resume = resume}, {watch, make_hook("checkpoint")}),
        Contains("already holds a run"));
    CHECK(late.w() == 0);
  }
}

TEST_CASE("what the progress output throws does not replace the error that ends a run", "[given]") {
  LinRun run(1, 3, lin_momentum());
  TrainerOptions options;
  options.live = true;
  options.out = [](std::string_view text) {
    if (text == "\n") throw std::runtime_error("the output is closed");
  };
  CHECK_THROWS_AS(run.train(options, {make_hook("progress")}, nan_at({2})), NumericError);
}

TEST_CASE("a checkpoint replaces a checkpoint or nothing, and never somebody's folder or file") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  std::filesystem::create_directories(folder / "mine/sub");
  write_text(folder / "mine/sub/precious.txt", "keep");
  write_text(folder / "file", "keep");
  std::filesystem::create_directory_symlink(folder / "mine", folder / "link");
  const auto before = contents(folder.path());
  for (const char* name : {"mine", "file", "link"})
    CHECK_THAT(refusal([&] { Checkpoint(folder / name, run.group).save(); }),
               Contains("cannot save a checkpoint here") && Contains(name));
  CHECK(contents(folder.path()) == before);
  std::filesystem::create_directory(folder / "empty");
  for (int i = 0; i < 2; ++i) Checkpoint(folder / "empty", run.group).save();
  CHECK(Checkpoint(folder / "empty", run.group).load().rule == "momentum");
}

TEST_CASE("every flipped bit of a manifest is found") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  Checkpoint(folder / "c", run.group).save();
  const std::string manifest = read_text(folder / "c/manifest.json");
  const std::string before = run.group.parameter_hash();
  for (std::size_t i = 0; i < manifest.size(); ++i) {
    std::string text = manifest;
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 7)));
    write_text(folder / "c/manifest.json", text);
    CAPTURE(i, text[i], manifest[i]);
    REQUIRE(refusal([&] { Checkpoint(folder / "c", run.group).load(); }) != "no CheckpointError");
  }
  CHECK(run.group.parameter_hash() == before);
}

TEST_CASE("a newest checkpoint without its manifest is damage, not an older run") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  for (const int update : {1, 2})
    Checkpoint(checkpoint_path(folder.path(), update), run.group).save();
  std::filesystem::remove(folder / "step_2/manifest.json");
  CHECK_THAT(refusal([&] { newest_checkpoint(folder.path(), false, {}); }),
             Contains("step_2") && Contains("no manifest.json"));
  CHECK(newest_checkpoint(folder.path(), true, {}) == checkpoint_path(folder.path(), 1));
  prune_checkpoints(folder.path(), 1, 5);
  CHECK(std::filesystem::exists(folder / "step_2"));  // what is no checkpoint is not removed
}

TEST_CASE("resuming with fewer epochs than were trained has nothing to do") {
  const TestFolder folder;
  TrainerOptions options;
  options.output = folder / "run";
  LinRun first(1, 3, lin_momentum());
  first.train(options, {make_hook("checkpoint", "every = \"1e\"")});
  options.resume = "newest";
  LinRun second(1, 2, lin_momentum());
  const TrainResult result = second.train(options, {make_hook("checkpoint", "every = \"1e\"")});
  CHECK(result.complete);
  CHECK(result.updates == 0);
  CHECK(second.group.clocks().update == 3);
}
