// SPDX-License-Identifier: MIT
// NCCL's communicators: their beginning, their end, and what they say of themselves.
#include <algorithm>
#include <cstring>

#include "belfry/tests/simcuda/nccl_state.h"

using namespace belfry::sim;

namespace {

ncclComm* make_comm(State& s, const std::shared_ptr<Clique>& q, int rank, int device,
                    bool blocking) {
  NcclState& n = *s.nccl;
  n.comms.push_back(std::make_unique<ncclComm>());
  ncclComm* const c = n.comms.back().get();
  c->clique = q;
  c->rank = rank;
  c->device = device;
  c->blocking = blocking;
  // One rank a GPU.
  for (const ncclComm* other : q->ranks)
    if (other != nullptr && other->device == device) q->failed = ncclInvalidUsage;
  q->ranks[static_cast<std::size_t>(rank)] = c;
  ++q->joined;
  belfry::sim::join(q->known, s.scheduler.threads().me().clock);
  n.alive.insert(c);
  ++s.counts.live_communicators;
  s.scheduler.threads().progressed();
  return c;
}

void drop_comm(State& s, ncclComm* c) {
  if (s.nccl->alive.erase(c) != 0) --s.counts.live_communicators;
}

// Waits for the other ranks; in a group the group's end does.
ncclResult_t join(State& s, ncclComm_t* out, ncclComm* c) {
  *out = c;
  const auto wait = [&s, out, c] {
    Clique& q = *c->clique;
    s.scheduler.block_until([&q] { return q.ready(); }, "the init of a communicator");
    belfry::sim::join(s.scheduler.threads().me().clock, q.known);
    if (q.failed == ncclSuccess) return ncclSuccess;
    s.nccl->last_error = "two ranks of a communicator are on one GPU";
    drop_comm(s, c);
    *out = nullptr;
    return q.failed;
  };
  if (!c->blocking) return ncclInProgress;
  if (s.local().group == 0) return wait();
  s.local().joining.push_back(wait);
  return ncclSuccess;
}

ncclResult_t init(const char* name, ncclComm_t* out, int n, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  return nccl_api(
      name,
      [&](State& s) -> ncclResult_t {
        *out = nullptr;
        if (n < 1 || rank < 0 || rank >= n) return ncclInvalidArgument;
        if (config != nullptr && config->magic != 0xcafebeef)
          return refuse(s, ncclInvalidArgument, "a config without NCCL_CONFIG_INITIALIZER");
        auto& q = s.nccl->by_id[std::string(id.internal, sizeof id.internal)];
        if (q == nullptr) q = std::make_shared<Clique>(static_cast<std::size_t>(n));
        if (q->n != static_cast<std::size_t>(n) || q->ranks[static_cast<std::size_t>(rank)])
          return refuse(s, ncclInvalidUsage, "ranks of a communicator do not fit together");
        const bool blocking = config == nullptr || config->blocking != 0;
        return join(s, out, make_comm(s, q, rank, s.local().device, blocking));
      },
      Waits::yes);
}

// Waits until what this rank has issued has ended.
ncclResult_t finish(State& s, const ncclComm& c) {
  const std::shared_ptr<Mark> last = c.last;
  if (last != nullptr)
    s.scheduler.block_until([last] { return last->done; }, "the end of a communicator");
  return ncclSuccess;
}

// All ranks have told their colors: makes the communicators.
void split(State& s, const Clique& parent, Split& split) {
  std::map<int, std::vector<std::pair<int, int>>> colors;  // key and rank, by color
  for (const auto& [rank, e] : split.entries)
    if (e.color != NCCL_SPLIT_NOCOLOR) colors[e.color].emplace_back(e.key, rank);
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end());
    const auto q = std::make_shared<Clique>(members.size());
    for (std::size_t r = 0; r < members.size(); ++r) {
      const int rank = members[r].second;
      split.entries.at(rank).result = make_comm(
          s, q, static_cast<int>(r), parent.ranks[static_cast<std::size_t>(rank)]->device, true);
    }
  }
  split.complete = true;
}

template <class Value, class Get>
ncclResult_t ask(const char* name, ncclComm_t comm, Value* out, Get get) {
  return nccl_api(name, [&](State& s) -> ncclResult_t {
    if (usable(s, comm, name) == nullptr) return ncclInvalidArgument;
    *out = get(*comm);
    return ncclSuccess;
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return nccl_api("ncclGetVersion", [&](State&) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_api("ncclGetUniqueId", [&](State& s) {
    for (char& c : id->internal) c = static_cast<char>(s.scheduler.random(256));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int n, ncclUniqueId id, int rank) {
  return init("ncclCommInitRank", comm, n, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init("ncclCommInitRankConfig", comm, n, id, rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int n, const int* devices) {
  return nccl_api("ncclCommInitAll", [&](State& s) -> ncclResult_t {
    if (n < 1) return ncclInvalidArgument;
    const auto device = [&](int r) { return devices == nullptr ? r : devices[r]; };
    for (int r = 0; r < n; ++r) {
      if (device(r) < 0 || device(r) >= s.devices) return ncclUnhandledCudaError;
      for (int k = 0; k < r; ++k)
        if (device(k) == device(r)) return ncclInvalidUsage;
    }
    const auto q = std::make_shared<Clique>(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) comms[r] = make_comm(s, q, r, device(r), true);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  return nccl_api(
      "ncclCommSplit",
      [&](State& s) -> ncclResult_t {
        if (usable(s, comm, "ncclCommSplit") == nullptr) return ncclInvalidArgument;
        const std::shared_ptr<Clique> q = comm->clique;
        Split& entry = q->splits[comm->splits++];
        entry.entries[comm->rank] = {color, key};
        belfry::sim::join(entry.known, s.scheduler.threads().me().clock);
        s.scheduler.threads().progressed();
        if (entry.entries.size() == q->n) split(s, *q, entry);
        const auto wait = [&s, out, q, &entry, rank = comm->rank] {
          s.scheduler.block_until([&entry] { return entry.complete; }, "ncclCommSplit");
          belfry::sim::join(s.scheduler.threads().me().clock, entry.known);
          *out = entry.entries.at(rank).result;
          return ncclSuccess;
        };
        if (s.local().group == 0) return wait();
        s.local().joining.push_back(wait);
        return ncclSuccess;
      },
      Waits::yes);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return nccl_api(
      "ncclCommFinalize",
      [&](State& s) -> ncclResult_t {
        if (usable(s, comm, "ncclCommFinalize") == nullptr) return ncclInvalidArgument;
        return finish(s, *comm);
      },
      Waits::yes);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return nccl_api(
      "ncclCommDestroy",
      [&](State& s) -> ncclResult_t {
        if (comm == nullptr) return ncclSuccess;
        if (usable(s, comm, "ncclCommDestroy") == nullptr) return ncclInvalidArgument;
        const ncclResult_t result = finish(s, *comm);
        drop_comm(s, comm);
        return result;
      },
      Waits::yes);
}

// Frees what waits on this rank's streams, and no other rank's.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return nccl_api("ncclCommAbort", [&](State& s) -> ncclResult_t {
    if (comm == nullptr) return ncclSuccess;
    if (usable(s, comm, "ncclCommAbort") == nullptr) return ncclInvalidArgument;
    *comm->aborted = true;
    drop_comm(s, comm);
    for (const auto& weak : comm->clique->live)
      if (const auto c = weak.lock()) s.scheduler.leave(*c);
    s.scheduler.threads().progressed();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return nccl_api("ncclCommGetAsyncError", [&](State& s) -> ncclResult_t {
    if (usable(s, comm, "ncclCommGetAsyncError") == nullptr) return ncclInvalidArgument;
    const Clique& q = *comm->clique;
    s.poll();
    if (q.ready()) belfry::sim::join(s.scheduler.threads().me().clock, q.known);
    *error = q.failed != ncclSuccess  ? q.failed
             : q.error != ncclSuccess ? q.error
             : q.ready()              ? ncclSuccess
                                      : ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return ask("ncclCommCount", comm, count,
             [](const ncclComm& c) { return static_cast<int>(c.clique->n); });
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return ask("ncclCommUserRank", comm, rank, [](const ncclComm& c) { return c.rank; });
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return ask("ncclCommCuDevice", comm, device, [](const ncclComm& c) { return c.device; });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  SimCuda* const sim = SimCuda::active();
  return sim == nullptr ? "" : sim->state().nccl->last_error.c_str();
}

}  // extern "C"
