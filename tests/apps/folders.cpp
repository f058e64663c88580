// SPDX-License-Identifier: MIT
// A net trained by the command on folders of images.
#include "belfry/tests/apps/cli.h"
#include "belfry/tests/hex.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

namespace {

// 4 x 4 of (20, 10, 30) and 4 rows x 5 columns of (230, 250, 200).
const std::string kDark = from_hex(
    "89504e470d0a1a0a0000000d4948445200000004000000040802000000269309290000001449444154789c6314e192"
    "63"
    "8001260624809b03000cb200442a9dd7b50000000049454e44ae426082");
const std::string kLight = from_hex(
    "89504e470d0a1a0a0000000d4948445200000005000000040802000000c95162170000001449444154789c637cf6eb"
    "04"
    "03126062400584f800a60e02b02fbc14ee0000000049454e44ae426082");

void fill(const TestFolder& folder, const std::string& set, int dark, int light) {
  for (const auto& [name, count] : {std::pair{"dark", dark}, std::pair{"light", light}}) {
    if (count == 0) continue;
    std::filesystem::create_directories(folder / (set + "/" + name));
    for (int i = 0; i < count; ++i)
      write_text(folder / (set + "/" + name + "/" + std::to_string(i) + ".png"),
                 std::string(name) == "dark" ? kDark : kLight);
  }
}

// Predictions of images name their files.
void ran_again(const std::string& config, const TestFolder& folder) {
  const std::string output = "output=" + (folder / "out");
  REQUIRE(run_cli({"train", config, "--set", output}).code == 0);
  const CliResult eval = run_cli({"eval", config, "--set", output, "--predictions", "-"});
  CHECK_THAT(eval.out, Catch::Matchers::StartsWith("row,file,label,prediction,probability\n0," +
                                                   (folder / "test/dark/0.png") + ",0,") &&
                           Contains("\n5," + (folder / "test/light/0.png") + ",1,"));
}

}  // namespace

TEST_CASE("images without classes are predicted from wherever they lie in a folder") {
  const TestFolder folder;
  fill(folder, "train", 12, 12);
  std::filesystem::create_directories(folder / "new/deep");
  write_text(folder / "new/b.png", kDark);
  write_text(folder / "new/deep/c.png", kLight);
  write_text(folder / "new/notes.txt", "no image");
  write_text(folder / "new/._b.png", "what another system keeps beside b.png");
  std::filesystem::create_directories(folder / "new/deep/.thumbnails");
  write_text(folder / "new/deep/.thumbnails/c.png", kDark);
  const std::string config = folder / "run.toml";
  write_text(config, "epochs = 15\nbatch = 8\noutput = \"" + (folder / "out") +
                         "\"\n[model]\nname = \"softmax\"\n[data]\nname = \"folders\"\nfolder = "
                         "\"train\"\nsize = [4, 4]\nmean = [0.5]\n[predict]\nfolder = \"new\"\n"
                         "[optimizer]\nname = \"adam\"\nlr = 0.05\n");
  REQUIRE(run_cli({"train", config}).code == 0);
  std::filesystem::remove_all(folder / "train");
  const CliResult run = run_cli({"predict", config});
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.err, Contains("predict: folders: 2 rows, image [4, 4, 3] f32\n"));
  CHECK_THAT(run.out, Catch::Matchers::StartsWith("row,file,prediction,probability,name\n0," +
                                                  (folder / "new/b.png") + ",0,") &&
                          Contains(",dark\n1," + (folder / "new/deep/c.png") + ",1,") &&
                          Contains(",light\n"));
  std::filesystem::remove_all(folder / "new/deep");
  std::filesystem::remove(folder / "new/b.png");
  CHECK_THAT(run_cli({"predict", config}).err, Contains("new: the data set is empty"));
}

TEST_CASE("folders of images train, and a test set has the same classes") {
  const TestFolder folder;
  fill(folder, "train", 12, 20);
  fill(folder, "test", 5, 3);
  const std::string config = folder / "run.toml";
  write_text(
      config,
      "towers = \"cpu:2\"\nbatch = 8\nepochs = 15\n[model]\nname = \"softmax\"\n[data]\nname = "
      "\"folders\"\nfolder = \"train\"\nsize = [4, 4]\nmean = [0.5]\n[test]\nfolder = "
      "\"test\"\n[optimizer]\nname = \"adam\"\nlr = 0.05\n");
  const CliResult run = run_cli({"train", config});
  CAPTURE(run.out, run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out,
             Contains("data: folders: 32 rows, image [4, 4, 3] f32, label i32, 2 classes\n") &&
                 Contains("accuracy 1.0000 (8 rows"));
  ran_again(config, folder);
  std::filesystem::remove_all(folder / "test/dark");
  const CliResult other = run_cli({"train", config});
  CHECK(other.code == 3);
  CHECK_THAT(other.err, Contains("[test] has other classes than [data]: found 'light', expected "
                                 "'dark', 'light'; give both the same list as `names`"));
  const CliResult named = run_cli({"train", config, "--set", "data.names=[\"dark\", \"light\"]"});
  CAPTURE(named.err);
  CHECK(named.code == 0);
  CHECK_THAT(named.out, Contains("accuracy 1.0000 (3 rows"));
  write_text(folder / "train/dark/7.png", kDark.substr(0, 40));
  const CliResult damaged = run_cli({"train", config, "--set", "data.names=[\"dark\", \"light\"]"});
  CHECK(damaged.code == 3);
  CHECK_THAT(damaged.err, Contains("train/dark/7.png: the PNG image is damaged"));
}
