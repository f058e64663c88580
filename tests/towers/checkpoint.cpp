// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>

#include "belfry/autodiff/nn/dropout.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/tests/towers/nets.h"
#include "belfry/tests/towers/runs.h"
#include "belfry/towers/background.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

std::vector<float> values_of(TowerGroupBase& group, const std::string& kind,
                             const std::string& variable) {
  for (const GroupArray& a : group.arrays())
    if (a.kind == kind && a.variable == variable) return a.values;
  FAIL("no array " << kind << "/" << variable);
  return {};
}

// Two 3 x 3 variables, constructed in one order or the other.
struct TwoWeights : Module {
  explicit TwoWeights(bool swapped) {
    for (const char* name : swapped ? std::vector{"b", "a"} : std::vector{"a", "b"})
      variables_.push_back(std::make_unique<Variable>(*this, name, Shape{3, 3}, Init::zeros()));
  }
  std::vector<std::unique_ptr<Variable>> variables_;
};

TowerGroupBase::Factory two_weights(bool swapped) {
  return [swapped] { return std::make_unique<TwoWeights>(swapped); };
}

// step_<update> for each update, which is also what it says inside.
void save_at(TowerGroupBase& group, const TestFolder& folder, const std::vector<int>& updates) {
  for (const int update : updates) {
    group.set_clocks({.update = update, .attempts = update});
    Checkpoint(checkpoint_path(folder.path(), update), group).save();
  }
}

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no CheckpointError";
}

// Trains the dropout net of nets.h for `updates` batches of 40 in epochs of 3 batches (the last one
// short), from a folder's newest checkpoint where there is one. Returns the parameter hash.
std::string train_net(const Optimizer& optimizer, const std::string& folder, std::int64_t updates,
                      int towers = 2) {
  Context context({.towers = "cpu:" + std::to_string(towers), .seed = 5, .threads_per_tower = 1});
  Loader loader(context, blobs(100), {.batch = 40, .epochs = 1000});
  TowerGroupBase group(context, optimizer, mlp(0.3));
  TrainerOptions options{.output = folder,
                         .resume = list_checkpoints(folder).empty() ? "" : "newest"};
  options.signal = [&group, updates] { return group.clocks().update >= updates ? 15 : 0; };
  Trainer trainer(group, loader, classify, options);
  trainer.add(make_hook("checkpoint", "every = \"1000u\""));
  CHECK(trainer.run().signal == 15);
  return group.parameter_hash();
}

}  // namespace

TEST_CASE("a checkpoint gives back parameters, state, averaged parameters and clocks bit for bit") {
  const TestFolder folder;
  const Optimizer optimizer = adam({.lr = 0.01}).with_ema(0.9);
  Context context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1});
  TowerGroupBase group(context, optimizer, mlp());
  for (int i = 0; i < 4; ++i) group.step(batch_of(context, 30), classify);
  Checkpoint(folder / "model", group).save();
  TowerGroupBase other(context, optimizer, mlp());
  const Manifest manifest = Checkpoint(folder / "model", other).load();
  CHECK(manifest.clocks.update == 4);
  CHECK(manifest.rule == "adam");
  CHECK(manifest.towers == 2);
  CHECK(other.parameter_hash() == group.parameter_hash());
  const auto before = group.arrays(), after = other.arrays();
  REQUIRE(after.size() == 4 * 4);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(before[i].values == after[i].values);
  CHECK(other.clocks().steps == group.clocks().steps);
  const Batch next = batch_of(context, 30, 9);
  CHECK(group.step(next, classify).loss() == other.step(next, classify).loss());
  CHECK(group.parameter_hash() == other.parameter_hash());
}

TEST_CASE(
    "a resumed run has the bits of an uninterrupted one: momentum, adam, ema, dropout, mid-epoch") {
  const std::vector<std::pair<std::string, Optimizer>> optimizers{
      {"momentum",
       momentum({.lr = cosine(0.2, "10e"), .momentum = 0.9}).clip_global_norm(0.7).decay(1e-3)},
      {"adam", adam({.lr = 0.01}).with_ema(0.9)},
      {"adam towers",
       adam({.lr = 0.01, .second_moment = "towers"}).with_statistics(Statistics::norms)}};
  for (const auto& [name, optimizer] : optimizers) {
    CAPTURE(name);
    const TestFolder whole, parts;
    const std::string expected = train_net(optimizer, whole.path(), 11);
    train_net(optimizer, parts.path(), 4);
    train_net(optimizer, parts.path(), 7);
    CHECK(train_net(optimizer, parts.path(), 11) == expected);
    CHECK(list_checkpoints(parts.path()) == std::vector<std::int64_t>{4, 7, 11});
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      CHECK(read_text(parts / ("step_11/" + std::string(file))) ==
            read_text(whole / ("step_11/" + std::string(file))));
  }
}

TEST_CASE(
    "B17 state comes back on every tower: w = 0.102, then 0.290598; sgd without state resumes") {
  for (const auto& [optimizer, expected] : std::vector<std::pair<Optimizer, double>>{
           {lin_momentum(), 0.290598}, {sgd({.lr = 0.001}), 0.198798}}) {
    const TestFolder folder;
    LinRun first(2, 1, optimizer), straight(2, 2, optimizer), second(2, 2, optimizer);
    first.train({.output = folder.path()}, {make_hook("checkpoint")});
    CHECK(first.w() == Approx(0.102).epsilon(1e-6));
    CHECK(second.train({.output = folder.path(), .resume = "newest"}, {make_hook("checkpoint")})
              .updates == 1);
    straight.train({}, {});
    CHECK(second.w() == Approx(expected).epsilon(1e-6));
    CHECK(second.w() == straight.w());
  }
}

TEST_CASE(
    "B22 towers 2 -> 1, 4 and back: w = 0.8528183330, equal payload, one line; another batch "
    "warns") {
  for (const auto& [before, after] :
       std::vector<std::pair<int, int>>{{2, 1}, {2, 4}, {1, 2}, {4, 2}}) {
    const TestFolder folder;
    LinRun first(before, 2, lin_momentum());
    first.train({.output = folder.path()}, {make_hook("checkpoint")});
    Messages messages;
    LinRun second(after, 4, lin_momentum(), 8, 8, messages.log());
    second.train({.output = folder.path(), .resume = "newest"}, {make_hook("checkpoint")});
    CHECK(second.w() == Approx(0.8528183330).epsilon(1e-6));
    CHECK_THAT(messages.text, Contains("towers " + std::to_string(before) + " -> " +
                                       std::to_string(after) + ", global batch 8 (unchanged)"));
    const safetensors::Reader file(folder / "step_4/model.safetensors");
    REQUIRE(file.entries().size() == 1);
    CHECK(file.entries()[0].name == "w");
  }
  const TestFolder one, four;
  LinRun on_one(1, 2, lin_momentum()), on_four(4, 2, lin_momentum());
  on_one.train({.output = one.path()}, {make_hook("checkpoint")});
  on_four.train({.output = four.path()}, {make_hook("checkpoint")});
  CHECK(read_text(one / "step_2/model.safetensors") ==
        read_text(four / "step_2/model.safetensors"));
  Messages messages;
  LinRun wider(4, 4, lin_momentum(), 8, 16, messages.log());
  wider.train({.output = one.path(), .resume = "newest"}, {make_hook("checkpoint")});
  CHECK_THAT(messages.text, Contains("warning: towers 1 -> 4, global batch 8 -> 16"));
  CHECK(wider.loader.position() == 32);
}

TEST_CASE("B29 state is matched by name, and another optimizer is named") {
  const TestFolder folder;
  Context context({.towers = "cpu:1"});
  TowerGroupBase saved(context, lin_momentum(), two_weights(false));
  auto arrays = saved.arrays();
  for (GroupArray& a : arrays)
    if (a.kind == "velocity") a.values.assign(9, a.variable == "a" ? 1.f : -1.f);
  saved.set_arrays(arrays);
  Checkpoint(folder / "c", saved).save();
  TowerGroupBase swapped(context, lin_momentum(), two_weights(true));
  Checkpoint(folder / "c", swapped).load();
  CHECK(values_of(swapped, "velocity", "a") == std::vector<float>(9, 1.f));
  CHECK(values_of(swapped, "velocity", "b") == std::vector<float>(9, -1.f));
  TowerGroupBase other(context, adam(), two_weights(false));
  CHECK_THAT(text_of([&] { Checkpoint(folder / "c", other).load(); }),
             Contains("'momentum' in the checkpoint, 'adam' here"));
}

TEST_CASE(
    "another model: every difference in one error, nothing changed; a partial load takes what "
    "fits") {
  const TestFolder folder;
  Messages messages;
  Context context({.towers = "cpu:1", .log = messages.log()});
  TowerGroupBase saved(context, lin_momentum(), mlp());
  Checkpoint(folder / "c", saved).save();
  struct Other : Module {
    Linear hidden{*this, "hidden", 64, 32};
    Linear head{*this, "head", 48, 10};
    Linear extra{*this, "extra", 2, 2};
  };
  TowerGroupBase other(context, lin_momentum(), [] { return std::make_unique<Other>(); });
  const std::string before = other.parameter_hash();
  const std::string text = text_of([&] { Checkpoint(folder / "c", other).load(); });
  for (const char* part :
       {"'hidden.weight': [48, 64] in the checkpoint, [32, 64] here", "'hidden.bias': [48]",
        "'extra.weight' [2, 2] is not in the checkpoint", "'velocity/extra.bias'"})
    CHECK_THAT(text, Contains(part));
  CHECK(other.parameter_hash() == before);
  Checkpoint(folder / "c", other).load({.partial = true});
  CHECK(other.parameter("head.weight") == saved.parameter("head.weight"));
  CHECK_THAT(messages.text, Contains("warning: partial load: variable 'hidden.weight'"));
}

TEST_CASE(
    "B53 the newest by number; .tmp, best and unknown names are ignored; damage is named or falls "
    "back") {
  const TestFolder folder;
  Messages messages;
  LinRun run(1, 1, lin_momentum());
  save_at(run.group, folder, {9, 99, 100});
  for (const char* name : {"step_1000.tmp-1-0", "best", "notes", "step_1000.left"})
    Checkpoint(folder / name, run.group).save();
  CHECK(newest_checkpoint(folder.path(), false, {}) == (folder / "step_100"));
  const std::string file = folder / "step_100/model.safetensors";
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(file, bytes);
  CHECK_THAT(text_of([&] { newest_checkpoint(folder.path(), false, {}); }),
             Contains("step_100/model.safetensors"));
  CHECK(newest_checkpoint(folder.path(), true, messages.log()) == (folder / "step_99"));
  CHECK_THAT(messages.text,
             Contains("warning: ") && Contains("step_100") && Contains("falling back"));
  write_text(file, bytes.substr(0, bytes.size() - 1));
  CHECK_THAT(text_of([&] { newest_checkpoint(folder.path(), false, {}); }), Contains("bytes"));
}

TEST_CASE(
    "B53 a failed save deletes nothing; keep counts numbers and spares best; keep = 0 is refused") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  save_at(run.group, folder, {9, 99, 100});
  Checkpoint(folder / "best", run.group).save();
  struct Full : FileOps {
    std::ptrdiff_t write(int, const void*, std::size_t) override {
      errno = ENOSPC;
      return -1;
    }
  } full;
  const auto before = contents(folder.path());
  CHECK_THAT(text_of([&] { Checkpoint(folder / "step_101", run.group, full).save(); }),
             Contains("No space left"));
  CHECK(contents(folder.path()) == before);
  save_at(run.group, folder, {101});
  prune_checkpoints(folder.path(), 2, 101);
  CHECK(list_checkpoints(folder.path()) == std::vector<std::int64_t>{100, 101});
  CHECK(std::filesystem::exists(folder / "best/manifest.json"));
  CHECK_THROWS_AS(make_hook("checkpoint", "keep = 0"), ConfigError);
}

TEST_CASE("B56 other versions, garbage and huge lengths are CheckpointErrors that say so") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  Checkpoint(folder / "c", run.group).save();
  const std::string manifest = read_text(folder / "c/manifest.json"),
                    model = read_text(folder / "c/model.safetensors");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    const std::size_t at = text.find(from);
    REQUIRE(at != text.npos);
    write_text(folder / "c/manifest.json", Manifest::sealed(text.replace(at, from.size(), to)));
    return text_of([&] { Checkpoint(folder / "c", run.group).load(); });
  };
  CHECK_THAT(with("\"format\": 1", "\"format\": 2"), Contains("newer") && Contains("format 2") &&
                                                         Contains("at most 1") &&
                                                         Contains("upgrade"));
  CHECK_THAT(with("\"format\": 1", "\"format\": 0"),
             Contains("format 0") && Contains("expected 1"));
  CHECK_THAT(with("belfry checkpoint", "something"), Contains("not a checkpoint of this program"));
  CHECK_THAT(with("\"clocks\"", "\"clock\""),
             Contains("the manifest is damaged") && Contains("clocks"));
  CHECK(with("\"format\": 1", "\"format\": 1, \"later\": true") ==
        "no CheckpointError");  // ignored
  write_text(folder / "c/manifest.json", "garbage");
  CHECK_THAT(text_of([&] { Checkpoint(folder / "c", run.group).load(); }),
             Contains("not a checkpoint of this program"));
  write_text(folder / "c/manifest.json", manifest);
  const std::string length("\0\0\0\0\0\0\0\x10", 8);  // 2^60
  write_text(folder / "c/model.safetensors", length + model.substr(8));
  CHECK_THROWS_AS(Checkpoint(folder / "c", run.group).load(), CheckpointError);
  CHECK_THROWS_AS(safetensors::Reader(folder / "c/model.safetensors"), CheckpointError);
  CHECK_THAT(text_of([&] { Checkpoint(folder / "none", run.group).load(); }), Contains("nothing"));
  write_text(folder / "x.npy", "\x93NUMPY");
  CHECK_THAT(text_of([&] { Checkpoint(folder / "x.npy", run.group).load(); }),
             Contains("not a checkpoint of this program"));
}

TEST_CASE("B52 one folder, one run: a second lock is refused with the folder's name") {
  const TestFolder folder;
  const auto lock = std::make_unique<FolderLock>(folder / "out");
  CHECK_THROWS_WITH(FolderLock(folder / "out"),
                    Contains(folder / "out") && Contains("another run"));
  struct NoLocks : FileOps {
    int lock(int) override {
      errno = ENOSYS;
      return -1;
    }
  } files;
  const FolderLock none(folder / "lustre", files), more(folder / "lustre", files);
}

TEST_CASE("a save in place, one in the background and the arrays one by one agree") {
  for (const Variables v : {Variables::shared, Variables::replicated})
    for (const Executor e : {Executor::in_place, Executor::lazy}) {
      const TestFolder folder;
      Context context({.towers = "cpu:2", .seed = 3, .threads_per_tower = 1, .executor = e});
      TowerGroupBase group(context, adam({.lr = 0.01}).with_ema(0.9), mlp(), {.variables = v});
      group.step(batch_of(context, 30), classify);
      Checkpoint now(folder / "now", group), later(folder / "later", group);
      now.save();
      later.save_async();
      const std::vector<GroupArray> arrays = group.arrays();
      for (const bool in_place : {false, true}) {
        const GroupCopy copy = group.copy_arrays(in_place);
        const bool shared = v == Variables::shared && context.device(0).host_memory();
        CHECK(copy.flat.size() == (in_place && shared ? 0 : 4));
        REQUIRE(copy.arrays.size() == arrays.size());
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          CHECK(copy.arrays[i].kind + copy.arrays[i].variable ==
                arrays[i].kind + arrays[i].variable);
          CHECK(copy.arrays[i].shape == arrays[i].shape);
          CHECK(std::equal(arrays[i].values.begin(), arrays[i].values.end(),
                           copy.arrays[i].values.begin(), copy.arrays[i].values.end()));
        }
      }
      group.step(batch_of(context, 30), classify);  // the one in the background has its own copy
      group.background().wait();
      const Manifest one = read_manifest(folder / "now"), two = read_manifest(folder / "later");
      REQUIRE(one.files.size() == 2);
      for (std::size_t f = 0; f < 2; ++f) CHECK(one.files[f].checksum == two.files[f].checksum);
      CHECK(verify_checkpoint(folder / "later").clocks.update == 1);
    }
}
