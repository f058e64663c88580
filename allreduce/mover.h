// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/flat_plan.h"
#include "belfry/allreduce/fold.kernel.h"
#include "belfry/allreduce/segment_norms.h"
#include "belfry/core/registry.h"
#include "belfry/device/context.h"

namespace belfry {

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
  // With FlatPlan::layerwise, before updates: the blocks whose norms this tower takes, where they
  // go, and after the last everybody's, on the main stream.
  virtual bool next_measure(Work& work) = 0;
  virtual SegmentNorms* norms() = 0;
  virtual const SegmentNorms* gather_norms() = 0;
  virtual bool next_update(Work& work) = 0;
  // Where its collectives run, so that others of the same communicator can keep their order.
  virtual Stream& collectives() = 0;
  virtual void finish(bool updated) = 0;  // sends the new parameters to all towers
  // Before this tower's main stream reads parameters of the bucket (-1: any), also while recorded.
  virtual void await_parameters(int bucket = -1) = 0;
  // Whole arrays of the group, between updates; every tower calls, each writes or reads its part.
  virtual void read(FlatArray what, int k, float* whole) = 0;
  virtual void write(FlatArray what, int k, const float* whole) = 0;
  // The whole array where the host may read it as it lies, until the next update; null: it may not.
  virtual const float* readable(FlatArray /*what*/, int /*k*/) { return nullptr; }
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
