// SPDX-License-Identifier: MIT
#include "belfry/tests/apps/cli.h"

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;

TEST_CASE("eval --confusion counts each label's predictions, without ignored rows") {
  const CliFolder f;
  REQUIRE(run_cli({"train", f.path(), "--set", "epochs=30"}).code == 0);
  const std::string file = f.folder / "confusion.csv";
  const CliResult right = run_cli({"eval", f.path(), "--confusion", file});
  CAPTURE(right.err);
  CHECK(right.code == 0);
  CHECK_THAT(right.out, Contains("confusion matrix written to " + file));
  CHECK(read_text(file) ==
        "label,0,1,2,recall\n0,20,0,0,1.0000\n1,0,20,0,1.0000\n2,0,0,20,1.0000\n");
  // The same rows, 30 of them called by the next label, one by a label that does not count.
  std::string other;
  std::istringstream lines(read_text(f.folder / "data.csv"));
  int row = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    const int label = row == 59 ? 9 : row < 30 ? (row + 1) % 3 : row % 3;
    other += line.substr(0, line.size() - 1) + std::to_string(label) + "\n";
  }
  write_text(f.folder / "other.csv", other);
  const CliResult wrong = run_cli({"eval", f.path(), "--set", "test.file=other.csv", "--set",
                                   "test.classes=3", "--set", "test.ignore=9", "--confusion", "-"});
  CHECK(wrong.code == 0);
  CHECK(wrong.out == "label,0,1,2,recall\n0,10,0,10,0.5000\n1,10,10,0,0.5000\n2,0,10,9,0.4737\n");
  CHECK_THAT(wrong.err, Contains("accuracy 0.4915"));  // 29 of 59
  const CliResult both = run_cli({"eval", f.path(), "--predictions", file, "--confusion", file});
  CHECK(both.code == 2);
  CHECK_THAT(both.err, Contains("name one file"));
}
