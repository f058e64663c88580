// SPDX-License-Identifier: MIT
// Which checkpoint is the newest, and what may be removed: content decides.
#include <cerrno>

#include "belfry/tests/towers/runs.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

using Updates = std::vector<std::int64_t>;

Optimizer lin_momentum() { return momentum({.lr = 0.001, .momentum = 0.9}); }

void save_at(TowerGroupBase& group, const std::string& path, std::int64_t update) {
  group.set_clocks({.update = update, .attempts = update});
  Checkpoint(path, group).save();
}

}  // namespace

TEST_CASE("newest: the manifest's update decides, not names or times") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  for (const int update : {5, 7, 90, 100})
    save_at(run.group, checkpoint_path(folder.path(), update), update);
  fs::rename(folder / "step_100", folder / "step_6");  // renamed: the newest has the second name
  CHECK(newest_checkpoint(folder.path(), false, {}) == folder / "step_6");
  // Copies of an older one with a later time and a larger number count by their content.
  fs::copy(folder / "step_5", folder / "step_5000", fs::copy_options::recursive);
  fs::last_write_time(folder / "step_5000/manifest.json",
                      fs::file_time_type::clock::now() + std::chrono::hours(24 * 365));
  CHECK(newest_checkpoint(folder.path(), false, {}) == folder / "step_6");
  // Of two with one update the one that has its own name.
  fs::copy(folder / "step_6", folder / "step_100", fs::copy_options::recursive);
  fs::copy(folder / "step_6", folder / "step_999 (copy)", fs::copy_options::recursive);
  CHECK(newest_checkpoint(folder.path(), false, {}) == folder / "step_100");
  // Only what a run has named itself is removed.
  prune_checkpoints(folder.path(), 1, 100);
  for (const char* name : {"step_100", "step_6", "step_5000", "step_999 (copy)"})
    CHECK(fs::exists(folder / name));
  for (const char* name : {"step_5", "step_7", "step_90"}) CHECK_FALSE(fs::exists(folder / name));
}

TEST_CASE("newest: names that the system refuses are damaged checkpoints, and none to go on from") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  save_at(run.group, folder / "step_1", 1);
  fs::create_directory(folder / "step_2");
  fs::create_symlink("manifest.json", folder / "step_2/manifest.json");  // a link to itself
  CHECK(newest_checkpoint(folder.path(), true, {}) == folder / "step_1");
  CHECK_THROWS_WITH(newest_checkpoint(folder.path(), false, {}), Contains("symbolic links"));
  prune_checkpoints(folder.path(), 1, 2);
  CHECK(fs::exists(folder / "step_1"));
  const std::string name(300, 'x');
  CHECK_THROWS_AS(find_checkpoint(name, false, {}), CheckpointError);
  CHECK_THROWS_WITH(Checkpoint(name, run.group).load(), Contains("File name too long"));
}

TEST_CASE("newest: what a killed save moved aside stays where it cannot be taken back") {
  struct Full : FileOps {
    int rename(const std::string&, const std::string&) override {
      errno = ENOSPC;
      return -1;
    }
  } full;
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  save_at(run.group, folder / "step_1", 1);
  fs::rename(folder / "step_1", folder / "step_1.tmp-7-0.old");
  Messages messages;
  clean_checkpoints(folder.path(), messages.log(), full);
  CHECK_THAT(messages.text, Contains("step_1: cannot be taken back") && Contains("No space left"));
  clean_checkpoints(folder.path(), messages.log());
  CHECK(verify_checkpoint(folder / "step_1").clocks.update == 1);
}

TEST_CASE("newest: old ones go within their folder, whatever that is called") {
  struct Ops : FileOps {
    std::vector<std::string> renamed;
    int rename(const std::string& from, const std::string& to) override {
      renamed.push_back(to);
      return FileOps::rename(from, to);
    }
  } ops;
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  for (const int update : {1, 2})
    save_at(run.group, checkpoint_path(folder / "eye.left", update), update);
  prune_checkpoints(folder / "eye.left", 1, 2, ops);
  REQUIRE(ops.renamed.size() == 1);
  CHECK_THAT(ops.renamed[0], Catch::Matchers::StartsWith(folder / "eye.left/step_1.tmp-"));
  CHECK(list_checkpoints(folder / "eye.left") == Updates{2});
}

TEST_CASE("newest: a damaged one is named, or passed over with a warning that names it") {
  const TestFolder folder;
  LinRun run(1, 1, lin_momentum());
  for (const int update : {1, 2, 3})
    save_at(run.group, checkpoint_path(folder.path(), update), update);
  write_text(folder / "step_3/manifest.json", "");
  std::string model = read_text(folder / "step_2/model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 4);
  write_text(folder / "step_2/model.safetensors", model);
  Messages messages;
  CHECK_THROWS_WITH(newest_checkpoint(folder.path(), false, {}), Contains("step_3/manifest.json"));
  CHECK(newest_checkpoint(folder.path(), true, messages.log()) == folder / "step_1");
  CHECK_THAT(messages.text, Contains("step_3/manifest.json") &&
                                Contains("step_2/model.safetensors: the checkpoint is damaged"));
}

TEST_CASE("newest: resumed at 100 where 200 exists, a crash before the first save stays at 100") {
  const TestFolder folder;
  struct Crash : Hook {
    std::string name() const override { return "crash"; }
    void on_update(TrainRun&, const Report&) override { throw std::runtime_error("crash"); }
  };
  {
    LinRun run(1, 4, lin_momentum());
    run.train({.output = folder.path()}, {make_hook("checkpoint", "every = \"2u\"")});
  }
  fs::copy(folder / "step_4", folder / "step_4 copy", fs::copy_options::recursive);
  REQUIRE(list_checkpoints(folder.path()) == Updates{2, 4});
  LinRun other(1, 9, lin_momentum());
  CHECK_THROWS_WITH(other.train({.output = folder.path(), .resume = folder / "step_2"},
                                {make_hook("checkpoint"), std::make_shared<Crash>()}),
                    Contains("crash"));
  CHECK(newest_checkpoint(folder.path(), false, {}) == folder / "step_2");
  CHECK(fs::exists(folder / "step_4.left/manifest.json"));
  CHECK(fs::exists(folder / "step_4 copy.left/manifest.json"));
  LinRun rest(1, 6, lin_momentum());
  rest.train({.output = folder.path(), .resume = "newest"},
             {make_hook("checkpoint", "every = \"1u\"\nkeep = 2")});
  CHECK(list_checkpoints(folder.path()) == Updates{5, 6});
  CHECK_FALSE(fs::exists(folder / "step_4.left"));  // passed by
  CHECK(fs::exists(folder / "step_4 copy.left"));   // somebody's copy
}
