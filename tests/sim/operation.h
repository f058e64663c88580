// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belfry/tests/sim/shadow.h"

namespace belfry::sim {

// One record of an event: what had been done by then.
struct Mark {
  bool done = false;
  VectorClock clock;
  double time = 0;
};

// A collective: begins when every member's queue has reached it, ends for all at once.
struct Rendezvous {
  std::size_t members = 0;
  std::function<void()> run;  // set by the front when all have posted
  bool aborted = false;       // members go on with `error`
  std::exception_ptr error;
  double seconds = 0;
  // Of the scheduler.
  std::vector<int> here;
  VectorClock clock;
  double time = 0;
};

struct Operation {
  enum class Kind : std::uint8_t { work, record, wait, collective } kind = Kind::work;
  const std::string* what = nullptr;
  std::vector<Range> touches{};
  std::function<void()> run{};
  std::shared_ptr<Mark> mark{};              // record, wait
  std::shared_ptr<Rendezvous> rendezvous{};  // collective
  VectorClock host{};                        // of the scheduler: what its issuer knew
  double issued = 0;
  std::uint64_t number = 0;  // wait: on its device
  // When true, a wait or a collective no longer waits for anybody: its communicator was aborted.
  std::shared_ptr<const bool> abandoned{};
  bool is_abandoned() const { return abandoned != nullptr && *abandoned; }
};

// A stream, as the scheduler keeps it.
struct Queue {
  int device, agent;
  std::string name;
  std::uint32_t priority;
  VectorClock clock{};
  double time = 0;
  std::deque<Operation> ops{};
  bool meeting = false;
  std::exception_ptr error{};
};

// The n-th call of a kind on a device's streams, the same under every seed; none when n is 0.
struct Nth {
  int device = 0;
  std::uint64_t number = 0;
};

struct SchedulerOptions {
  std::uint64_t seed = 1;
  std::uint64_t fail_call = 0;  // the n-th call of a front throws DeviceError
  Nth drop_wait{};              // this wait of a stream does nothing
  Nth drop_sync{};              // this synchronize does nothing
  bool trace = false;
};

struct Traced {
  std::string what, queue;
  double begin, end;
  double issued;  // when its host thread called
};

}  // namespace belfry::sim
