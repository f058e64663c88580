// SPDX-License-Identifier: MIT
// NCCL's functions for collectives and groups.
#include <algorithm>

#include "belfry/tests/simcuda/nccl_state.h"

using namespace belfry::sim;

namespace belfry::sim {

ncclResult_t refuse(State& s, ncclResult_t result, const std::string& text) {
  s.nccl->last_error = text;
  s.scheduler.report(text);
  return result;
}

ncclComm* usable(State& s, ncclComm* comm, const char* call) {
  if (s.nccl->alive.count(comm) != 0) return comm;
  s.scheduler.report(std::string(call) + " uses a communicator that does not exist");
  return nullptr;
}

}  // namespace belfry::sim

namespace {

bool is_pair(const NcclCall& c) { return c.kind == Kind::send || c.kind == Kind::receive; }

ncclResult_t check_arguments(State& s, const ncclComm& comm, const NcclCall& c,
                             const CUstream_st& stream) {
  const Clique& q = *comm.clique;
  const auto invalid = [&s](const std::string& text) {
    s.nccl->last_error = text;
    return ncclInvalidArgument;
  };
  if (!q.ready()) return refuse(s, ncclInvalidUsage, "a communicator is used before it is ready");
  if (q.error != ncclSuccess) return q.error;
  if (bytes_of(c.type) == 0) return invalid("the type is not simulated");
  if (c.op < ncclSum || c.op > ncclAvg) return invalid("no such reduction");
  if (c.root < 0 || c.root >= static_cast<int>(q.n)) return invalid("no such root or peer");
  if (stream.device != comm.device)
    return refuse(s, ncclUnhandledCudaError,
                  name_of(c) + " is put on a stream of another device than its communicator's");
  const std::string overlap = overlap_of(c, q.n, comm.rank);
  return overlap.empty() ? ncclSuccess : refuse(s, ncclInvalidArgument, overlap);
}

// One thread that drives several ranks must group them: the first call may wait for the others.
void check_thread(State& s, ncclComm& comm, const NcclCall& c) {
  const auto me = std::this_thread::get_id();
  if (s.local().group == 0)
    for (const ncclComm* other : comm.clique->ranks)
      if (other != nullptr && other != &comm && other->user == me && !*other->aborted)
        s.scheduler.report("one thread issues " + name_of(c) +
                           " on several ranks outside of a group");
  comm.user = me;
}

ncclResult_t put(State& s, CUstream_st* stream, ncclComm* comm, std::vector<NcclCall> calls) {
  const auto issue = [&s, comm, calls](int queue) {
    return is_pair(calls[0]) ? post_pairs(s, comm, calls, queue) : post(s, comm, calls[0], queue);
  };
  if (stream->capture == nullptr) return issue(stream->queue);
  Node node;
  node.kind = Node::Kind::post;
  node.what = name_of(calls[0]) + " on " + stream->name;
  node.post = issue;
  return s.put(stream, std::move(node)) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t call(const NcclCall& c, ncclComm_t comm, cudaStream_t stream) {
  return nccl_api(("NCCL " + name_of(c)).c_str(), [&](State& s) -> ncclResult_t {
    if (usable(s, comm, name_of(c).c_str()) == nullptr) return ncclInvalidArgument;
    CUstream_st* const st = s.usable(stream, name_of(c).c_str());
    if (st == nullptr) return ncclInvalidArgument;
    if (const ncclResult_t e = check_arguments(s, *comm, c, *st); e != ncclSuccess) return e;
    check_thread(s, *comm, c);
    if (s.local().group == 0) return put(s, st, comm, {c});
    s.local().pending.push_back({st, comm, c});
    return ncclSuccess;
  });
}

ncclResult_t end_group(State& s) {
  Local& mine = s.local();
  if (mine.group == 0) return refuse(s, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--mine.group != 0) return ncclSuccess;
  const auto calls = std::exchange(mine.pending, {});
  const auto joining = std::exchange(mine.joining, {});
  if (!calls.empty() && !joining.empty())
    s.scheduler.report("one group holds both the init of communicators and collectives");
  const bool captured = !calls.empty() && calls[0].stream->capture != nullptr;
  for (const GroupCall& c : calls)
    if ((c.stream->capture != nullptr) != captured)
      s.scheduler.report("one group holds captured collectives and others");
  ncclResult_t result = ncclSuccess;
  const auto keep = [&result](ncclResult_t r) {
    if (result == ncclSuccess) result = r;
  };
  for (const auto& join : joining) keep(join());
  // All sends and receives of a communicator are one operation.
  std::map<std::pair<ncclComm*, CUstream_st*>, std::vector<NcclCall>> pairs;
  std::vector<std::pair<ncclComm*, CUstream_st*>> first;
  for (const GroupCall& c : calls) {
    if (!is_pair(c.call)) {
      keep(put(s, c.stream, c.comm, {c.call}));
      continue;
    }
    auto& list = pairs[{c.comm, c.stream}];
    if (list.empty()) first.emplace_back(c.comm, c.stream);
    list.push_back(c.call);
  }
  for (const auto& key : first) keep(put(s, key.second, key.first, pairs[key]));
  return result;
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  return nccl_api("ncclGroupStart", [](State& s) {
    ++s.local().group;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = nccl_api("ncclGroupEnd", [](State& s) { return end_group(s); });
  if (result == ncclSuccess || SimCuda::active() == nullptr) return result;
  Local& mine = SimCuda::active()->state().local();  // a group that fails is over as well
  mine.group = 0;
  mine.pending.clear();
  mine.joining.clear();
  return result;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::all_reduce, in, out, count, type, op}, comm, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::reduce, in, out, count, type, op, root}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::reduce_scatter, in, out, count, type, op}, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::all_gather, in, out, count, type}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::broadcast, in, out, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclBcast(void* data, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::broadcast, data, data, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::all_to_all, in, out, count, type}, comm, stream);
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::send, in, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({Kind::receive, nullptr, out, count, type, ncclSum, peer}, comm, stream);
}

}  // extern "C"
