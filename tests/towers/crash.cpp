// SPDX-License-Identifier: MIT
// Checkpoints under a file layer that fails, fills up or loses its power at every call.
#include <cstdio>

#include "belfry/tests/towers/crash_ops.h"
#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;

namespace {

constexpr std::uint64_t kSeeds = 6;  // ways a power cut may go, for each call

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

struct State {
  std::vector<std::vector<float>> values;
  std::int64_t update = 0;
  bool operator==(const State&) const = default;
};

State state_of(TowerGroupBase& group) {
  State out{{}, group.clocks().attempts};
  for (const GroupArray& a : group.arrays()) out.values.push_back(a.values);
  return out;
}

State loaded(const std::string& path) {
  LinRun run(1, 1, lin_momentum());
  Checkpoint(path, run.group).load();
  return state_of(run.group);
}

std::size_t leftovers(const std::string& folder) {
  std::size_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) ++out;
  return out;
}

// One save of update 2, first or over one of update 1.
struct Save {
  explicit Save(bool over_one) : over(over_one) {
    Batch batch;
    for (State* s : {&before, &after}) {
      REQUIRE(run.loader.next(batch));
      run.group.step(batch, lin_loss);
      *s = state_of(run.group);
      if (s == &before && over) Checkpoint(path(), run.group).save();
    }
  }
  std::string path() const { return folder / "a/model"; }
  bool save(FileOps& files) {
    try {
      Checkpoint(path(), run.group, files).save();
      return true;
    } catch (const CheckpointError&) {
      return false;
    }
  }
  // A good one is there, the new one if the save said so; and the next save works.
  void check(bool saved) {
    const bool there = standing_checkpoint(path()) != path() || std::filesystem::exists(path());
    if (over || saved) REQUIRE(there);
    if (there) {
      const State now = loaded(path());
      if (saved || !over)
        CHECK(now == after);
      else
        CHECK((now == after || now == before));
    }
    CHECK(save(system_files()));
    CHECK(loaded(path()) == after);
  }

  bool over;
  TestFolder folder;
  LinRun run{1, 9, lin_momentum()};
  State before, after;
};

long all_calls(bool over, bool has_exchange, bool die, const char* name) {
  long points = 0, runs = 0;
  std::map<std::string, long> kinds;
  for (long at = 1;; ++at) {
    bool reached = true;
    for (std::uint64_t seed = 1; reached && seed <= (die ? kSeeds : 1); ++seed) {
      CAPTURE(name, at, seed);
      Save world(over);
      CrashOps files;
      files.at = at;
      files.die = die;
      files.has_exchange = has_exchange;
      files.code = at % 2 == 0 ? ENOSPC : EIO;
      const bool saved = world.save(files);
      reached = files.calls >= at;
      kinds = files.kinds;
      if (die) files.crash(seed * 1000 + static_cast<std::uint64_t>(at));
      world.check(saved);
      if (reached) ++runs;
    }
    if (!reached) break;
    ++points;
  }
  std::string text;
  for (const auto& [kind, count] : kinds) text += " " + std::to_string(count) + " " + kind + ",";
  std::printf("%s, %s: %ld injection points, %ld runs, all load a good generation (%s)\n", name,
              die ? "dies" : "fails", points, runs, text.c_str());
  return points;
}

// Five epochs of one update, each saved, two kept, and the best of every one.
TrainResult train(const std::string& folder, FileOps& files, std::int64_t epochs,
                  const std::string& resume, std::int64_t* safe = nullptr, State* end = nullptr,
                  const std::string& keys = "sync = true\n") {
  struct Passed : Hook {
    std::string name() const override { return "passed"; }
    int order() const override { return 50; }
    void on_update(TrainRun&, const Report& r) override {
      if (safe != nullptr) *safe = r.update;
    }
    std::int64_t* safe = nullptr;
  };
  LinRun run(1, epochs, lin_momentum());
  double loss = 9;
  run.evaluate = [&loss] {
    EvalReport out;
    out.rows = 8;
    out.loss = loss -= 1;
    return out;
  };
  const auto passed = std::make_shared<Passed>();
  passed->safe = safe;
  const TrainResult result =
      run.train({.output = folder, .resume = resume, .files = &files},
                {make_hook("checkpoint", "every = \"1e\"\nkeep = 2\nmetric = \"loss\"\n" + keys),
                 make_hook("validation", "every = \"1e\""), make_hook("jsonl"), passed});
  if (end != nullptr) *end = state_of(run.group);
  return result;
}

void check_run(const std::string& out, std::int64_t safe, const std::vector<State>& expected) {
  const std::string newest = newest_checkpoint(out, false, {});
  if (newest.empty()) {
    CHECK(safe == 0);
  } else {
    const State state = loaded(newest);
    CHECK(state.update >= safe);
    CHECK(state == expected[static_cast<std::size_t>(state.update)]);
  }
  const std::string best = out + "/best";
  if (safe > 0) CHECK(loaded(best).update >= safe);
  // The last old one may stay when the run was over: a complete run writes nothing.
  const bool over = !newest.empty() && loaded(newest) == expected[5];
  State end;
  train(out, system_files(), 5, "newest", nullptr, &end);
  CHECK(end == expected[5]);
  CHECK(loaded(newest_checkpoint(out, false, {})) == expected[5]);
  CHECK(leftovers(out) == 0);
  CHECK(list_checkpoints(out).size() <= (over ? 3u : 2u));
}

}  // namespace

TEST_CASE("crash: a save that fails or dies at any call leaves a good generation") {
  for (const bool die : {false, true}) {
    CHECK(all_calls(false, true, die, "first save") >= 18);
    CHECK(all_calls(true, true, die, "save over another") >= 20);
    CHECK(all_calls(true, false, die, "save over another without exchange") >= 22);
  }
}

TEST_CASE("crash: the model finds an fsync that is left out, of a file or of a folder") {
  for (const bool of_folder : {false, true}) {
    long lost = 0, runs = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      Save world(true);
      CrashOps files;
      (of_folder ? files.skip_folder_sync : files.skip_sync) = true;
      REQUIRE(world.save(files));  // it says that update 2 is safe
      files.crash(seed);
      ++runs;
      try {
        if (!(loaded(world.path()) == world.after)) ++lost;
      } catch (const CheckpointError&) {
        ++lost;
      }
    }
    std::printf("without fsync of %s: %ld of %ld crashes after a save lose it\n",
                of_folder ? "folders" : "files", lost, runs);
    CHECK(lost > 0);
  }
}

TEST_CASE("crash: a full disk at any byte changes nothing; short writes are completed") {
  long bytes = 0;
  for (;; ++bytes) {
    Save world(true);
    const auto before = contents(world.folder.path());
    CrashOps files;
    files.space = bytes;
    if (world.save(files)) break;
    REQUIRE(contents(world.folder.path()) == before);
    REQUIRE(leftovers(world.folder / "a") == 0);
    if (bytes % 97 == 0) CHECK(loaded(world.path()) == world.before);
  }
  std::printf("a disk with room for 0 to %ld bytes: the checkpoint before stays\n", bytes - 1);
  CHECK(bytes > 900);
  for (const std::size_t most : {1, 2, 7, 100}) {
    Save world(true);
    CrashOps files;
    files.short_write = most;
    CHECK(world.save(files));
    CHECK(loaded(world.path()) == world.after);
  }
}

TEST_CASE("crash: a run that dies at any call resumes to the bits of an unbroken one [slow]",
          "[slow]") {
  std::vector<State> expected{{}};
  for (std::int64_t k = 1; k <= 5; ++k) {
    LinRun run(1, k, lin_momentum());
    run.train({}, {});
    expected.push_back(state_of(run.group));
  }
  for (const bool die : {false, true}) {
    long points = 0, runs = 0;
    for (long at = 1;; ++at) {
      bool reached = true;
      for (std::uint64_t seed = 1; reached && seed <= (die ? 3u : 1u); ++seed) {
        CAPTURE(die, at, seed);
        const TestFolder folder;
        CrashOps files;
        files.at = at;
        files.die = die;
        std::int64_t safe = 0;
        try {
          train(folder / "out", files, 5, "", &safe);
        } catch (const CheckpointError&) {
        }
        reached = files.calls >= at;
        if (die) files.crash(seed * 1000 + static_cast<std::uint64_t>(at));
        check_run(folder / "out", safe, expected);
        if (reached) ++runs;
      }
      if (!reached) break;
      ++points;
    }
    std::printf("run with keep 2, best and metrics, %s: %ld injection points, %ld runs\n",
                die ? "dies" : "fails", points, runs);
    CHECK(points > 150);
  }
}

TEST_CASE("crash: every changed, cut or added byte of a checkpoint is refused") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum()), other(1, 1, lin_momentum());
  Checkpoint(folder / "c", run.group).save();
  long changed = 0, cut = 0, added = 0;
  const auto refused = [&] {
    try {
      Checkpoint(folder / "c", other.group).load();
    } catch (const CheckpointError&) {
      return true;
    }
    return false;
  };
  for (const char* name : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    const std::string path = folder / ("c/" + std::string(name)), good = read_text(path);
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int to : {good[i] ^ 1, good[i] ^ 0x80, 0, 0xff, static_cast<int>('\n'),
                           static_cast<int>(' '), static_cast<int>('0')}) {
        std::string bad = good;
        bad[i] = static_cast<char>(to);
        if (bad == good) continue;
        write_text(path, bad);
        CAPTURE(name, i, to);
        REQUIRE(refused());
        ++changed;
      }
      write_text(path, good.substr(0, i));
      CAPTURE(name, i);
      REQUIRE(refused());
      ++cut;
    }
    for (const char* more : {"\n", " ", "x", "\xff", "{}"}) {
      write_text(path, good + more);
      REQUIRE(refused());
      ++added;
    }
    write_text(path, good);
  }
  CHECK(other.w() == 0);
  CHECK_FALSE(refused());
  std::printf("damage: %ld changed bytes, %ld lengths, %ld longer files, all refused\n", changed,
              cut, added);
}
