// SPDX-License-Identifier: MIT
// The arithmetic of bench_loader and bench_checkpoint.
#include "belfry/bench/common/rates.h"

#include "belfry/tests/catch.h"

using namespace belfry::bench;

TEST_CASE("loader: headroom is the loader's rate over the step's, round by round") {
  LoaderRounds r;
  r.add_load(1000, 0.5);  // 2000 a second
  r.add_step(64, 0.016);  // 4000 a second
  r.add_load(1000, 0.1);
  r.add_step(64, 0.032);
  CHECK(r.loaded.values == std::vector<double>{2000, 10000});
  CHECK(r.trained.values == std::vector<double>{4000, 2000});
  CHECK(r.headroom().values == std::vector<double>{0.5, 5});
  CHECK(r.headroom().median() == 2.75);
  LoaderRounds alone;
  alone.add_load(10, 1);
  CHECK(alone.headroom().values.empty());
}

TEST_CASE("checkpoint: rates in bytes a second, the share of the disk's, the pause in copies") {
  CheckpointRounds r;
  r.bytes = 8e8;
  r.write.add(1);
  r.save.add(1.25);
  r.pause.add(0.3);
  r.copy.add(0.2);
  r.write.add(2);  // a disk that has become slow moves both
  r.save.add(2.5);
  r.pause.add(0.1);
  r.copy.add(0.2);
  CHECK(r.rate(r.save).values == std::vector<double>{6.4e8, 3.2e8});
  CHECK(r.rate(r.write).values == std::vector<double>{8e8, 4e8});
  CHECK(r.disk_share().values == std::vector<double>{0.8, 0.8});
  CHECK(r.pause_over_copy().values[0] == Approx(1.5));
  CHECK(r.pause_over_copy().values[1] == Approx(0.5));
}
