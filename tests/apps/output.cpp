// SPDX-License-Identifier: MIT
// Files that flags name: what is replaced, what is written to, what is refused before any work.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "belfry/apps/cli/output_file.h"
#include "belfry/core/error.h"
#include "belfry/tests/apps/cli.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

CliIo silent() {
  CliIo io;
  io.out = io.err = [](std::string_view) {};
  return io;
}

std::string refusal(const std::string& path, const std::vector<std::string>& inputs = {}) {
  try {
    OutputFile("--json", path, inputs);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an output file replaces regular files, through links too, and nothing else") {
  const TestFolder folder;
  const std::string file = folder / "real.txt", link = folder / "link", ahead = folder / "ahead";
  write_text(file, "old");
  fs::create_symlink("real.txt", link);
  fs::create_symlink("later.txt", ahead);
  OutputFile("--json", link, {}).write("new", silent());
  CHECK(read_text(file) == "new");
  CHECK(fs::is_symlink(link));
  OutputFile("--json", ahead, {}).write("later", silent());
  CHECK(read_text(folder / "later.txt") == "later");
  CHECK(fs::is_symlink(ahead));
  OutputFile("--json", "/dev/null", {}).write("x", silent());
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("an output file writes into a FIFO and reports a full device") {
  const TestFolder folder;
  const std::string fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const OutputFile out("--json", fifo, {});
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  out.write("figures", silent());
  char text[16] = {};
  CHECK(::read(reader, text, sizeof text) == 7);
  ::close(reader);
  CHECK(std::string(text) == "figures");
  CHECK(fs::is_fifo(fifo));
  if (fs::exists("/dev/full"))
    CHECK_THROWS_AS(OutputFile("--json", "/dev/full", {}).write("x", silent()), CheckpointError);
}

TEST_CASE("an output file refuses folders, missing folders and the run's own files") {
  const TestFolder folder;
  const std::string data = folder / "data.csv", link = folder / "link";
  write_text(data, "1,0\n");
  fs::create_symlink(data, link);
  CHECK_THAT(refusal(folder / "."), Contains("--json") && Contains("a folder"));
  CHECK_THAT(refusal(folder / "new/"), Contains("a folder"));
  CHECK_THAT(refusal(folder / "none/x.json"), Contains("no folder") && Contains("none"));
  CHECK_THAT(refusal(data, {data}), Contains("that the run reads"));
  CHECK_THAT(refusal(link, {data}), Contains("that the run reads"));
  CHECK(refusal(folder / "x.json", {data}) == "accepted");
  fs::create_directory(folder / "step_1");
  write_text(folder / "step_1/manifest.json", "{}");
  CHECK_THAT(refusal(folder / "step_1/model.safetensors"), Contains("is a checkpoint"));
  write_text(folder / "metrics.jsonl", "{}\n");
  CHECK_THAT(refusal(folder / "metrics.jsonl"), Contains("the run in") && Contains("writes"));
  CHECK_THAT(refusal(folder / "manifest.json"), Contains("name another file"));
  CHECK(refusal(folder / "predictions.csv") == "accepted");
  CHECK(read_text(data) == "1,0\n");
  if (::geteuid() == 0) {
    WARN("as root every folder can be written: the case of a read-only one is skipped");
    return;
  }
  fs::permissions(folder / ".", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK_THAT(refusal(folder / "x.json"), Contains("Permission denied"));
  fs::permissions(folder / ".", fs::perms::owner_all);
}

TEST_CASE("--predictions: - is stdout alone; the config and its data are refused before work") {
  const CliFolder f;
  CHECK(run_cli({"train", f.path()}).code == 0);
  const CliResult piped = run_cli({"eval", f.path(), "--predictions", "-"});
  CHECK(piped.code == 0);
  CHECK_THAT(piped.out, Catch::Matchers::StartsWith("row,label,prediction,probability\n0,0,"));
  CHECK(std::count(piped.out.begin(), piped.out.end(), '\n') == 61);
  CHECK_THAT(piped.err, Contains("at update 12"));
  for (const std::string& own : {f.path(), f.folder / "data.csv"}) {
    const CliResult result = run_cli({"eval", f.path(), "--predictions", own});
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains("that the run reads"));
  }
  CHECK(run_cli({"eval", f.path(), "--predictions", f.out()}).code == 2);
  const CliResult nameless = run_cli({"eval", f.path(), "--predictions", ""});
  CHECK(nameless.code == 2);
  CHECK_THAT(nameless.err, Contains("--predictions: needs the name of a file"));
  CHECK(run_cli({"bench", "step", "--json", f.folder / "none/x"}).out.empty());
}

TEST_CASE("check prints what a recorded step plans, and leaves no trace of it") {
  const CliFolder f;
  const CliResult result = run_cli({"check", f.path(), "--set", "capture=true"});
  INFO(result.out + result.err);
  CHECK(result.code == 0);
  for (const char* tower : {"tower 0", "tower 1"})
    CHECK_THAT(result.out, Contains(std::string(tower) + ": step of ") &&
                               Contains(" buffers of ") && Contains(" MiB in use at most"));
  CHECK_THAT(run_cli({"check", f.path()}).out, !Contains("recorded"));
  CHECK(run_cli({"train", f.path(), "--set", "epochs=1"}).code == 0);  // its folder is as it was
}
