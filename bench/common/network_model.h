// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace belfry::bench {

// A link of one GPU: a message of n bytes takes latency + n / bytes_per_second each way, and the
// latencies of `in_flight` messages pass at once.
struct Link {
  double latency = 0;           // seconds a message
  double bytes_per_second = 0;  // of one GPU, each direction
  int in_flight = 1;
};

// A cluster of equal nodes. The last node may not be full only where all GPUs are in one.
struct Cluster {
  int gpus = 1;
  int per_node = 8;
  Link inside;             // between GPUs of a node
  Link across;             // between nodes
  double launch = 0;       // seconds to start one collective
  double memory_rate = 0;  // bytes a second of a GPU's own memory

  int local() const { return gpus < per_node ? gpus : per_node; }  // GPUs of a node in use
  int nodes() const { return (gpus + per_node - 1) / per_node; }
};

// A bucket of the flat gradient, in the order in which it is exchanged. Shares are of the time of
// the pass: when its last gradient is there, and how long forward works on its variables.
struct BucketWork {
  double bytes = 0;
  double ready = 0;    // of backward, 0 to 1
  double forward = 0;  // of forward; they add up to 1
};

// What a model's steps consist of. State arrays are those of its optimizer.
struct NetPlan {
  std::string name;
  double parameters = 0;
  double statistics_bytes = 0;  // of the whole gradient, what the verdict gathers
  int states = 1;
  double forward_flops = 0;  // a row; backward takes twice as many
  std::vector<BucketWork> buckets;
};

struct StepModel {
  double forward = 0, backward = 0, update = 0;  // seconds of the GPU's own work
  double exchange = 0, verdict = 0, gather = 0;  // of communication, hidden or not
  double exposed_exchange = 0;                   // after backward, until the update can start
  double exposed_gather = 0;                     // waits of the next forward pass
  double bytes_inside = 0, bytes_across = 0;     // sent by one GPU, an update
  double step = 0;                               // seconds
  double alone = 0;                              // of the same work on one GPU
  double exposed() const { return exposed_exchange + exposed_gather; }
  double efficiency() const { return alone / step; }
};

// Exchange of slices among n members, or its mirror, the gather: each sends n - 1 messages that
// hold (n - 1) / n of `bytes`, so many in flight. 0 for one member.
double slices_seconds(double bytes, int members, const Link& link);

// One bucket over the cluster in two levels: among the GPUs of a node, then each of their slices
// among the GPUs of equal place in all nodes. The gather takes as long.
double two_level_seconds(double bytes, const Cluster& cluster);

// One update: forward and backward of `forward` and `backward` seconds, each bucket exchanged and
// folded as soon as it is ready and the one before is through, the verdict, the update of a slice,
// the gather in the reverse order, awaited by the next forward pass.
StepModel model_step(const NetPlan& plan, const Cluster& cluster, double forward, double backward);

}  // namespace belfry::bench
