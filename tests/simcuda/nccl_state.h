// SPDX-License-Identifier: MIT
#pragma once
#include <deque>
#include <set>
#include <thread>

#include "belfry/tests/simcuda/api.h"

namespace belfry::sim {

using Kind = NcclCall::Kind;

struct Issue {  // what a rank's thread knew, and when memory of its device had last been taken
  int device = -1;
  VectorClock clock{}, allocated{};
};

// A collective that some ranks have issued; begins when all have.
struct Collective : Rendezvous {
  std::string signature;
  std::vector<NcclCall> calls;  // by rank
  std::vector<char> posted;
  std::vector<Issue> issues;           // so far
  std::map<int, std::uint64_t> order;  // by device: its place among all collectives there
};

// One send and its receive, whichever was issued first.
struct Pair {
  const void* from = nullptr;
  std::size_t bytes = 0;
  Issue first{};
  std::shared_ptr<Mark> ready = std::make_shared<Mark>(), done = std::make_shared<Mark>();
};

struct Split {
  struct Entry {
    int color, key;
    ncclComm* result = nullptr;
  };
  std::map<int, Entry> entries;  // by rank
  bool complete = false;
  VectorClock known{};  // by the ranks that have called, before
};

// What the ranks of one communicator share.
struct Clique {
  explicit Clique(std::size_t size) : n(size), ranks(size, nullptr), next(size, 0) {}
  std::size_t n, joined = 0;
  VectorClock known{};  // by the ranks that have joined, before
  std::vector<ncclComm*> ranks;
  std::vector<std::uint64_t> next;  // number of the next collective, by rank
  std::map<std::uint64_t, std::shared_ptr<Collective>> open;  // not issued by all
  std::vector<std::weak_ptr<Collective>> live;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Pair>>> sends, receives;
  std::map<std::uint64_t, Split> splits;
  ncclResult_t failed = ncclSuccess;  // the init
  ncclResult_t error = ncclSuccess;   // asynchronous
  bool ready() const { return failed != ncclSuccess || joined == n; }
};

struct NcclState {
  std::map<std::string, std::shared_ptr<Clique>> by_id;
  std::deque<std::unique_ptr<ncclComm>> comms;
  std::set<const ncclComm*> alive;
  std::deque<std::shared_ptr<Collective>> recent;
  std::map<int, std::uint64_t> issued;  // by device
  std::uint64_t break_at = 0;
  ncclResult_t break_with = ncclSuccess;
  std::string last_error;
};

// As api(), with NCCL's results.
template <class F>
ncclResult_t nccl_api(const char* name, F body, Waits waits = Waits::no) {
  ncclResult_t result = ncclSuccess;
  const cudaError_t e = api(
      name,
      [&](State& s) {
        result = body(s);
        return cudaSuccess;
      },
      waits);
  return e == cudaSuccess ? result : ncclUnhandledCudaError;
}

ncclResult_t refuse(State& state, ncclResult_t result, const std::string& text);
ncclComm* usable(State& state, ncclComm* comm, const char* call);  // null: not one, reported

std::size_t bytes_of(ncclDataType_t type);  // 0: not simulated
std::string name_of(const NcclCall& call);
std::vector<Range> ranges_of(const NcclCall& call, std::size_t n, int rank);
std::string overlap_of(const NcclCall& call, std::size_t n, int rank);  // "" when allowed
// Moves and adds, in an order that `random` chooses, the same for all ranks.
void run_collective(const std::vector<NcclCall>& calls, Scheduler& scheduler);

// Put a rank's part on a queue.
ncclResult_t post(State& state, ncclComm* comm, const NcclCall& call, int queue);
ncclResult_t post_pairs(State& state, ncclComm* comm, const std::vector<NcclCall>& calls,
                        int queue);
// A wait for the communicator's last operation if that was on another queue, as NCCL adds one.
void after_last(State& state, ncclComm& comm, int queue);
void note_last(State& state, ncclComm& comm, int queue);

}  // namespace belfry::sim

struct ncclComm {
  std::shared_ptr<belfry::sim::Clique> clique;
  int rank, device;
  bool blocking = true;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  std::thread::id user{};                     // whose call was the last
  std::shared_ptr<belfry::sim::Mark> last{};  // of its last operation
  int last_queue = -1;
  std::uint64_t splits = 0;
  std::map<int, int> lanes{};  // queues of receives, by the other end
};
