// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "belfry/allreduce/average_gradients.h"
#include "belfry/allreduce/mover.h"
#include "belfry/core/host_buffer.h"

namespace belfry {

struct GroupOptions {
  std::string transport = "auto";  // as choose_transport() says
  // Makes the transport instead of the registered one of that name.
  std::function<std::unique_ptr<Transport>(Context&, const TransportOptions&)> make_transport{};
  Variables variables = Variables::shared;
  double exchange_delay = 0;     // seconds; tests and benches
  double timeout_seconds = 600;  // TransportOptions
  bool check_tags = false;
  // Updates between two comparisons of the replicas' parameters, 0: none; replicated only.
  std::int64_t check_replicas = 100;
  // Records forward and backward once for each kind of shard and replays them: the step function is
  // not called again, and must not depend on the update or on values. Every `check_capture` updates
  // (0: never) it is called and must give the same ops.
  bool capture = false;
  std::int64_t check_capture = 100;
  bool log_placement = false;  // logs every op of the first update with its devices
  std::size_t first_bucket_bytes = std::size_t{1} << 20, bucket_bytes = std::size_t{25} << 20;
};

// The kind of arrays that modules keep as ModuleState.
inline constexpr const char* kStateKind = "state";

// One flat array of a group, cut into variables: "parameter", "ema" or an optimizer state's name;
// or one of the modules' states under its own name, kStateKind.
struct GroupArray {
  std::string kind;
  std::string variable;
  Shape shape;
  std::vector<float> values;
};

// A group's arrays in host memory of their own, copied once and not moved again; or, until the next
// update only, as they lie in the group.
struct GroupCopy {
  struct Array {
    std::string kind, variable;  // as GroupArray's
    Shape shape;
    std::span<const float> values;
  };
  std::vector<Array> arrays;  // of what follows
  std::vector<HostBuffer> flat;
  std::vector<GroupArray> states;
};

// What a group knows besides its arrays.
struct GroupClocks {
  std::int64_t update = 0;    // applied updates
  std::int64_t attempts = 0;  // the learning rate's clock: refused updates count
  std::int64_t rows = 0;      // rows trained on
  std::vector<std::pair<std::string, std::int64_t>> steps;  // applied updates of each variable
  std::vector<double> statistics;                           // noise-scale averages
};

// Gradients of each tower before averaging, with the loss weights to average them by.
struct TowerGradients {
  std::vector<GradientList> towers;
  std::vector<double> weights;
  std::vector<double> losses;
};

}  // namespace belfry
