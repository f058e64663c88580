// SPDX-License-Identifier: MIT
// How collectives, sends and receives get onto queues.
#include <algorithm>
#include <cstring>
#include <limits>

#include "belfry/device/cpu/streams_internal.h"
#include "belfry/tests/simcuda/nccl_state.h"

namespace belfry::sim {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max(), kRecent = 64;

std::string signature_of(const NcclCall& c) {
  return name_of(c) + ", " + std::to_string(c.count) + " of type " + std::to_string(c.type) +
         ", op " + std::to_string(c.op) + ", root " + std::to_string(c.root);
}

void wait_on(State& s, int queue, const std::string& what, std::shared_ptr<Mark> mark,
             std::shared_ptr<const bool> abandoned) {
  Operation op;
  op.kind = Operation::Kind::wait;
  op.what = s.name(what);
  op.mark = std::move(mark);
  op.abandoned = std::move(abandoned);
  s.scheduler.submit(queue, std::move(op));
}

void record_on(State& s, int queue, const std::string& what, std::shared_ptr<Mark> mark) {
  Operation op;
  op.kind = Operation::Kind::record;
  op.what = s.name(what);
  op.mark = std::move(mark);
  s.scheduler.submit(queue, std::move(op));
}

// All devices must see the collectives of all communicators in one order: each device runs one at
// a time, so two of them could wait for each other.
void check_order(State& s, const std::shared_ptr<Collective>& c, int device) {
  NcclState& n = *s.nccl;
  if (std::find(n.recent.begin(), n.recent.end(), c) == n.recent.end()) {
    n.recent.push_back(c);
    if (n.recent.size() > kRecent) n.recent.pop_front();
  }
  c->order[device] = n.issued[device]++;
  for (const auto& k : n.recent) {
    if (k == c || k->order.count(device) == 0) continue;
    for (const auto& [other, place] : c->order) {
      const auto there = k->order.find(other);
      if (there != k->order.end() && place < there->second)
        s.scheduler.report(
            "devices issue the collectives of two communicators in different orders");
    }
  }
}

Issue issue_on(State& s, int device) {
  return {device, s.scheduler.threads().me().clock, s.allocated[device]};
}

// Taking memory may wait for all GPUs of the process: for one, too, whose part of a collective is
// queued while the call keeps this one's part from being issued. So it has to end before.
void check_memory(State& s, const Issue& a, const Issue& b) {
  for (const auto& [taker, waiter] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (a.device != b.device && !covers(waiter->clock, taker->allocated))
      s.scheduler.report("memory of cuda:" + std::to_string(taker->device) +
                         " is taken or given back while cuda:" + std::to_string(waiter->device) +
                         " may wait for it in a collective, which may hang");
}

std::shared_ptr<Collective> entry_of(State& s, Clique& q, std::uint64_t number,
                                     const NcclCall& call) {
  std::shared_ptr<Collective>& entry = q.open[number];
  if (entry == nullptr) {
    entry = std::make_shared<Collective>();
    entry->members = q.n;
    entry->signature = signature_of(call);
    entry->calls.resize(q.n, call);
    entry->posted.resize(q.n, 0);
    const double moved = static_cast<double>(call.count * bytes_of(call.type) * q.n);
    entry->seconds = 10e-6 + moved / 4e11;
    std::erase_if(q.live, [](const auto& w) { return w.expired(); });
    q.live.push_back(entry);
    if (number + 1 == s.nccl->break_at) q.error = s.nccl->break_with;
  }
  if (q.error != ncclSuccess) entry->members = kNever;
  return entry;
}

void run(State& s, const Collective& c, const std::vector<ncclComm*>& ranks,
         const std::string* what) {
  std::vector<Range> all;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const Range& range : ranges_of(c.calls[r], ranks.size(), static_cast<int>(r))) {
      const std::string fault = s.memory.fault(range, ranks[r]->device, Toucher::kernel);
      if (!fault.empty()) {
        s.broken = s.refuse(cudaErrorIllegalAddress, *what + " " + fault);
        return;
      }
      all.push_back(range);
    }
  bind_cpu_thread(1);
  const Opened open(s.memory, what, all);
  run_collective(c.calls, s.scheduler);
}

// The end of a send or receive that came first waits in a list for the other.
std::shared_ptr<Pair> pair_of(State& s, ncclComm* comm, const NcclCall& call) {
  Clique& q = *comm->clique;
  const bool send = call.kind == Kind::send;
  const std::pair<int, int> ends =
      send ? std::pair(comm->rank, call.root) : std::pair(call.root, comm->rank);
  auto& mine = send ? q.sends[ends] : q.receives[ends];
  auto& others = send ? q.receives[ends] : q.sends[ends];
  const std::size_t bytes = call.count * bytes_of(call.type);
  std::shared_ptr<Pair> pair;
  if (others.empty()) {
    pair = std::make_shared<Pair>();
    pair->bytes = bytes;
    pair->first = issue_on(s, comm->device);
    mine.push_back(pair);
  } else {
    pair = others.front();
    others.pop_front();
    check_memory(s, pair->first, issue_on(s, comm->device));
    if (pair->bytes != bytes) {
      s.scheduler.report("a send and its receive differ in size: " + std::to_string(bytes) +
                         " and " + std::to_string(pair->bytes) + " bytes");
      return nullptr;
    }
  }
  if (send) pair->from = call.in;
  return pair;
}

void receive(State& s, ncclComm* comm, const NcclCall& call, const std::shared_ptr<Pair>& pair,
             const std::shared_ptr<Mark>& start) {
  auto lane = comm->lanes.find(call.root);
  const std::string text = "receive of rank " + std::to_string(comm->rank) + " from " +
                           std::to_string(call.root) + " on cuda:" + std::to_string(comm->device);
  if (lane == comm->lanes.end())
    lane = comm->lanes.emplace(call.root, s.scheduler.open_queue(comm->device, text)).first;
  wait_on(s, lane->second, text, start, nullptr);
  wait_on(s, lane->second, text, pair->ready, comm->aborted);
  // What the sender gives is known when it is ready: ranges are checked and declared then.
  Operation op;
  op.what = s.name(text);
  const auto to = reinterpret_cast<std::uintptr_t>(call.out);
  op.run = [&s, pair, out = call.out, to, device = comm->device, what = op.what,
            aborted = comm->aborted] {
    if (*aborted || pair->from == nullptr || pair->bytes == 0) return;
    const auto from = reinterpret_cast<std::uintptr_t>(pair->from);
    const std::vector<Range> both{{from, from + pair->bytes, false}, {to, to + pair->bytes, true}};
    for (const Range& r : both) {
      s.scheduler.host_access(r, what);  // by the queue that runs
      const std::string fault =
          s.memory.fault(r, device, r.write ? Toucher::kernel : Toucher::copy);
      if (fault.empty()) continue;
      s.broken = s.refuse(cudaErrorIllegalAddress, *what + " " + fault);
      return;
    }
    const Opened open(s.memory, what, both);
    std::memmove(out, pair->from, pair->bytes);
  };
  s.scheduler.submit(lane->second, std::move(op));
  record_on(s, lane->second, text, pair->done);
}

}  // namespace

void after_last(State& s, ncclComm& comm, int queue) {
  if (comm.last != nullptr && comm.last_queue != queue)
    wait_on(s, queue, "wait of a communicator for its last operation", comm.last, comm.aborted);
}

void note_last(State& s, ncclComm& comm, int queue) {
  comm.last = std::make_shared<Mark>();
  comm.last_queue = queue;
  s.collectives[comm.device][queue] = comm.last;
  record_on(s, queue, "end of a collective", comm.last);
}

ncclResult_t post(State& s, ncclComm* comm, const NcclCall& call, int queue) {
  if (*comm->aborted) return ncclInvalidUsage;  // a graph that outlives it
  Clique& q = *comm->clique;
  const auto me = static_cast<std::size_t>(comm->rank);
  const std::uint64_t number = q.next[me]++;
  const std::shared_ptr<Collective> c = entry_of(s, q, number, call);
  if (signature_of(call) != c->signature) {
    const std::string text =
        "ranks issue different collectives: " + signature_of(call) + ", not " + c->signature;
    q.error = ncclInvalidArgument;
    c->members = kNever;
    return refuse(s, ncclInvalidArgument, text);
  }
  after_last(s, *comm, queue);
  c->calls[me] = call;
  c->posted[me] = 1;
  check_order(s, c, comm->device);
  const Issue mine = issue_on(s, comm->device);
  for (const Issue& other : c->issues) check_memory(s, other, mine);
  c->issues.push_back(mine);
  Operation op;
  op.kind = Operation::Kind::collective;
  op.what = s.name(name_of(call) + " of rank " + std::to_string(comm->rank) +
                   " on cuda:" + std::to_string(comm->device));
  op.touches = ranges_of(call, q.n, comm->rank);
  op.rendezvous = c;
  op.abandoned = comm->aborted;
  if (std::find(c->posted.begin(), c->posted.end(), 0) == c->posted.end()) {
    c->run = [&s, raw = c.get(), ranks = q.ranks, what = op.what] { run(s, *raw, ranks, what); };
    q.open.erase(number);
  }
  ++s.counts.collectives;
  s.scheduler.submit(queue, std::move(op));
  note_last(s, *comm, queue);
  return ncclSuccess;
}

// The stream announces what it sends; each receive is a branch of its own, so that none waits for
// another; then the stream waits until all has been moved.
ncclResult_t post_pairs(State& s, ncclComm* comm, const std::vector<NcclCall>& calls, int queue) {
  if (*comm->aborted) return ncclInvalidUsage;
  std::vector<std::shared_ptr<Pair>> pairs;
  for (const NcclCall& call : calls) {
    pairs.push_back(pair_of(s, comm, call));
    if (pairs.back() == nullptr) {
      comm->clique->error = ncclInvalidArgument;
      return refuse(s, ncclInvalidArgument, "a send and its receive differ in size");
    }
  }
  after_last(s, *comm, queue);
  const std::string text = "sends and receives of rank " + std::to_string(comm->rank) +
                           " on cuda:" + std::to_string(comm->device);
  const auto start = std::make_shared<Mark>();
  record_on(s, queue, text, start);
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].kind == Kind::send) record_on(s, queue, text, pairs[i]->ready);
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].kind == Kind::receive) receive(s, comm, calls[i], pairs[i], start);
  for (const auto& pair : pairs) wait_on(s, queue, text, pair->done, comm->aborted);
  ++s.counts.collectives;
  note_last(s, *comm, queue);
  return ncclSuccess;
}

}  // namespace belfry::sim
