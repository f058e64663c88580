// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace belfry {

// Sums over updates: rows trained, wall time, and the parts of it that were spent waiting.
struct TrainTimes {
  std::int64_t updates = 0;
  std::int64_t rows = 0;
  double seconds = 0;
  double data_wait = 0;  // seconds without a batch to train on
  double exposed = 0;    // seconds of exchange that no computation hid, mean over towers

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(rows) / seconds : 0;
  }
  double data_wait_share() const { return seconds > 0 ? data_wait / seconds : 0; }
  double exposed_share() const { return seconds > 0 ? exposed / seconds : 0; }
  TrainTimes operator-(const TrainTimes& earlier) const {
    return {updates - earlier.updates, rows - earlier.rows, seconds - earlier.seconds,
            data_wait - earlier.data_wait, exposed - earlier.exposed};
  }
};

// How fast a run is. The first updates build caches and plans, so they are left out of rates; a run
// that has no others gives the rate of all.
class Throughput {
 public:
  static constexpr std::int64_t kWarmup = 1;

  void add(const TrainTimes& update) {
    accumulate(all_, update);
    if (all_.updates > kWarmup) accumulate(warm_, update);
  }
  const TrainTimes& all() const { return all_; }
  const TrainTimes& rate() const { return warm_.updates > 0 ? warm_ : all_; }
  std::int64_t left_out() const { return all_.updates - rate().updates; }

 private:
  static void accumulate(TrainTimes& sum, const TrainTimes& t) {
    sum.updates += t.updates;
    sum.rows += t.rows;
    sum.seconds += t.seconds;
    sum.data_wait += t.data_wait;
    sum.exposed += t.exposed;
  }
  TrainTimes all_, warm_;
};

}  // namespace belfry
