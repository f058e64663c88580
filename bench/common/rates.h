// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/bench/common/timer.h"

namespace belfry::bench {

// Rounds of bench_loader: rows that the loader's thread hands out a second, and rows a second that
// a step of one tower trains.
struct LoaderRounds {
  Samples loaded, trained;
  void add_load(double rows, double seconds) { loaded.add(rows / seconds); }
  void add_step(double rows, double seconds) { trained.add(rows / seconds); }
  // How many such towers one loader keeps busy: below 1 training waits for data.
  Samples headroom() const { return ratio(loaded, trained); }
};

// Rounds of bench_checkpoint, each of `bytes`: seconds that a plain write to the disk takes, a
// whole save, the pause of a save in the background, and a copy in memory.
struct CheckpointRounds {
  double bytes = 0;
  Samples write, save, pause, copy;
  // Of a time, in bytes a second.
  Samples rate(const Samples& seconds) const;
  // The save's rate, of the plain write's.
  Samples disk_share() const { return ratio(write, save); }
  Samples pause_over_copy() const { return ratio(pause, copy); }
};

}  // namespace belfry::bench
