// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/flat_index.h"
#include "belfry/allreduce/fold.kernel.h"
#include "belfry/allreduce/leaf_plan.h"
#include "belfry/core/registry.h"
#include "belfry/device/context.h"

namespace belfry {

// What a group's flat arrays look like; equal on every tower.
struct FlatPlan {
  FlatIndex index;
  std::vector<Bucket> buckets;
  int towers = 1;
  LeafPlan leaves;            // what the fold adds up, and in which tree
  int states = 0;             // arrays of optimizer state
  bool keep_squares = false;  // the mean of squares is kept for the rule
  bool unit_squares = false;  // the squares of units are summed beside their gradients
  bool ema = false;
  bool statistics = true;      // the folds of an update leave some
  bool mean_in_place = false;  // a lone tower's gradient becomes the mean where it lies
};

enum class FlatArray : std::uint8_t { parameter, mean, square, state, ema };

// Some whole blocks to fold or to update. Pointers are to element `origin` of the flat arrays and,
// like the tables, stay until the next start(); null when unused. The mean begins at `mean_origin`:
// with `whole` it is scratch memory, good until the next call. The tables of sources are in device
// memory, with a copy for the host; `state` is the host's.
struct Work {
  std::size_t first_block = 0, blocks = 0;
  std::size_t origin = 0, mean_origin = 0;
  const float* const* sources = nullptr;    // as LeafPlan::sources, null where one takes no part
  const float* const* square_in = nullptr;  // with unit_squares
  const float* const* host_sources = nullptr;
  const float* const* host_square_in = nullptr;
  float *mean = nullptr, *square = nullptr, *param = nullptr, *ema = nullptr;
  float* const* state = nullptr;
};

// One tower's access to the flat arrays of its group: decides who folds and updates which blocks,
// and moves what has to move. All towers make the same calls in the same order; used by the tower's
// thread. An aborted group throws CommError from every call.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual float* gradient(int slot = 0) = 0;      // this tower's own, whole; starts as zeros
  virtual float* unit_squares(int slot = 0) = 0;  // null without FlatPlan::unit_squares
  virtual float* parameters() = 0;                // what this tower's ops read
  virtual DevicePart* part() = 0;                 // this tower's LeafPlan::parts of the record
  virtual const DevicePart* parts() = 0;          // all towers', complete once a fold has begun

  // Before forward. `whole`: no fold starts before every tower has ended its backward pass, because
  // the update follows in the same pass and changes what backward reads.
  virtual void start(std::int64_t update, bool whole) = 0;
  // takes_part[k]: whether source k does. After the record has been exchanged.
  virtual void begin_exchange(const std::vector<char>& takes_part) = 0;
  // This tower's gradient of the bucket is on the main stream. The mark may be recorded; then the
  // rest follows the replay.
  virtual void mark_bucket(int bucket) = 0;
  virtual void bucket_ready(int bucket) = 0;
  virtual bool next_fold(Work& work) = 0;  // waits until some blocks can be folded; false: no more
  virtual void fail() = 0;                 // this tower threw after the record: nobody may update
  // After the last fold: everybody's statistics, on the main stream; then any_failed() is known.
  virtual const SegmentStats* gather_statistics() = 0;
  virtual bool any_failed() const = 0;  // with `whole`, known since the first fold
  // After the host has seen the outcome on the device: CommError if it came from a collective that
  // was ended early.
  virtual void require_healthy() const = 0;
  virtual SegmentStats* statistics() = 0;  // where folds put theirs
  virtual bool next_update(Work& work) = 0;
  virtual void finish(bool updated) = 0;  // sends the new parameters to all towers
  // Before this tower's main stream reads parameters of the bucket (-1: any), also while recorded.
  virtual void await_parameters(int bucket = -1) = 0;
  // Whole arrays of the group, between updates; every tower calls, each writes or reads its part.
  virtual void read(FlatArray what, int k, float* whole) = 0;
  virtual void write(FlatArray what, int k, const float* whole) = 0;
};

// Where a group's parameters live. On devices whose memory the host cannot read there is no shared
// copy: ConfigError.
enum class Variables : std::uint8_t { shared, replicated };

// The ends of one group, one a local tower. Owned by the group; must outlive its users' calls.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Control& control(int tower) = 0;
  virtual Communicator& communicator(int tower) = 0;
  virtual std::unique_ptr<Mover> mover(int tower, const FlatPlan& plan) = 0;
  virtual std::string describe() const = 0;  // logged once: the choice and its reason
};

struct TransportOptions {
  Variables variables = Variables::shared;
  double delay_seconds = 0;      // artificial, before each update's first fold: tests and benches
  double timeout_seconds = 600;  // without progress of a collective, where somebody watches
  bool check_tags = false;       // compare what the members issue; transports of memory always do
  std::string reason = "asked for by transport";  // why this one: describe() says it
};

// What a platform gives as its extension of a transport's name, where it brings the code for it.
struct TransportMaker {
  std::unique_ptr<Transport> (*make)(Context&, const TransportOptions&);
};

struct TransportEntry {
  std::function<std::unique_ptr<Transport>(Context&, const TransportOptions&)> make;
  std::string help;
};

// Owners over a Communicator: every tower folds and updates its slice of each bucket, on whatever
// device it is. The way of GPUs, and of `variables = replicated`.
std::unique_ptr<Mover> make_sliced_mover(const FlatPlan& plan, Device& device, Communicator& comm,
                                         Control& control, double delay_seconds);

}  // namespace belfry
