// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belfry/allreduce/leaf_plan.h"
#include "belfry/allreduce/round_record.h"
#include "belfry/data/loader.h"
#include "belfry/device/kept_arena.h"
#include "belfry/towers/outcome_internal.h"

namespace belfry {

// A tower's forward and backward passes over one kind of shard as one graph, and what the host
// knows from having given them once.
struct RecordedPass {
  Batch inputs;                  // where the graph reads its rows
  std::unique_ptr<Graph> graph;  // null: run once, which has taken the memory
  std::int64_t update = 0;       // when it was recorded
  std::vector<std::string> ops;
  HostPart part;
  std::vector<char> present;  // on all towers, when it was recorded
  std::vector<std::pair<std::string, Metric>> metrics;
  std::vector<int> buckets;  // in the order in which they become ready
  LeafStack stack;
  std::vector<const float*> weights;
};

// The recorded passes of one tower, by kind of shard: rows and fields. The first pass of a kind
// runs as given, in memory that is kept; the next one is recorded and replayed, and so is every
// later one until `check_every` updates have gone by: then it is recorded again and must have the
// same ops. One thread, the tower's.
class Recorder {
 public:
  enum class Way : std::uint8_t { as_given, first, record, replay };

  explicit Recorder(Device& device) : device_(device) {}
  // What becomes of this update's pass; puts its rows and numbers where the pass reads them.
  Way choose(std::int64_t update, const Batch& shard, std::int64_t batch_rows,
             std::int64_t check_every);
  void as_given() { way_ = Way::as_given; }  // passes that are not of an update
  Way way() const { return way_; }
  bool keeps() const { return way_ == Way::first || way_ == Way::record; }
  bool capturing() const { return capturing_; }
  RecordedPass& pass() { return *pass_; }
  // The memory of the pass, for as long as it is given.
  std::unique_ptr<UseArena> memory();
  const PassNumbers* numbers() const;  // null unless recording
  std::int64_t base_row() const { return way_ == Way::record ? base_row_ : 0; }

  void begin();                 // what follows on the main stream is recorded, not run
  void note(const Tape& tape);  // of each unit
  // True the first time; GradientError when a pass recorded again has other ops.
  bool end();
  void abandon() noexcept;  // after an exception
  std::string describe() const;

 private:
  void place(const Batch& shard);
  Device& device_;
  std::shared_ptr<Arena> arena_;
  Tensor numbers_;
  std::map<std::string, RecordedPass> passes_;
  std::map<std::string, RecordedPass>::iterator kind_;  // of pass_
  RecordedPass* pass_ = nullptr;
  Way way_ = Way::as_given;
  bool capturing_ = false;
  std::int64_t update_ = 0, base_row_ = 0;
  std::vector<std::string> ops_;
};

}  // namespace belfry
