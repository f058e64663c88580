// SPDX-License-Identifier: MIT
// NCCL's rules: what real devices would hang on, corrupt or refuse.
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

struct Rank {
  int number;
  cudaStream_t stream, other;
  ncclComm_t comm;
  float *data, *more, *pinned;
  ncclResult_t reduce(std::size_t n = 8, ncclRedOp_t op = ncclSum) const {
    return ncclAllReduce(data, data, n, ncclFloat, op, comm, stream);
  }
};

constexpr std::size_t kFloats = 64;

// Every rank on a thread of its own.
template <class F>
void on_ranks(SimCuda& sim, int n, F body) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  on_threads(sim, n, [&](int r) {
    OK(cudaSetDevice(r));
    Rank rank{r,
              make_stream(),
              make_stream(),
              nullptr,
              device_memory(kFloats),
              device_memory(kFloats),
              pinned_memory(2)};
    OK(cudaMemsetAsync(rank.data, 0, kFloats * sizeof(float), rank.stream));
    OK(cudaMemsetAsync(rank.more, 0, kFloats * sizeof(float), rank.stream));
    NCCL_OK(ncclCommInitRank(&rank.comm, n, id, r));
    OK(cudaStreamSynchronize(rank.stream));
    body(rank);
  });
}

}  // namespace

TEST_CASE("ranks that issue different collectives are told, and nobody waits for ever",
          "[cuda-sim]") {
  const std::function<ncclResult_t(const Rank&)> wrong[] = {
      [](const Rank& r) { return r.reduce(9); }, [](const Rank& r) { return r.reduce(8, ncclMax); },
      [](const Rank& r) {
        return ncclAllReduce(r.data, r.data, 8, ncclInt32, ncclSum, r.comm, r.stream);
      },
      [](const Rank& r) {
        return ncclBroadcast(r.data, r.data, 8, ncclFloat, 0, r.comm, r.stream);
      }};
  for (const auto& call : wrong)
    under_seeds(2, 10, [&](SimCuda& sim) {
      int refused = 0;
      on_ranks(sim, 2, [&](const Rank& r) {
        const ncclResult_t e = r.number == 1 ? call(r) : r.reduce();
        ncclResult_t state = e;
        while (state == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(r.comm, &state));
        REQUIRE(state == ncclInvalidArgument);
        refused += e == ncclInvalidArgument;
        NCCL_OK(ncclCommAbort(r.comm));
        OK(cudaStreamSynchronize(r.stream));
      });
      REQUIRE(refused == 1);  // whoever came second
      REQUIRE(reported(sim, "ranks issue different collectives"));
      REQUIRE(sim.reports().size() == 1);
      REQUIRE(sim.counts().live_communicators == 0);
    });
}

TEST_CASE("a rank that leaves out a collective is a deadlock that is reported", "[cuda-sim]") {
  under_seeds(3, 20, [](SimCuda& sim) {
    int failed = 0;
    on_ranks(sim, 3, [&](const Rank& r) {
      if (r.number != 1) NCCL_OK(r.reduce());
      failed += cudaStreamSynchronize(r.stream) == cudaErrorLaunchTimeout;
    });
    REQUIRE(failed == 2);
    REQUIRE(reported(sim, "all-reduce of rank 2 on cuda:2"));
    REQUIRE(reported(sim, "deadlock in "));
    int count = 0;
    REQUIRE(cudaGetDeviceCount(&count) == cudaErrorLaunchTimeout);
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclUnhandledCudaError);
  });
}

TEST_CASE("a rank that never comes to the init is a deadlock that is reported", "[cuda-sim]") {
  under_seeds(2, 10, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 2, id, 0) == ncclUnhandledCudaError);
    REQUIRE(reported(sim, "deadlock in the init of a communicator"));
  });
}

TEST_CASE("two ranks on one device are refused on both", "[cuda-sim]") {
  under_seeds(2, 10, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    on_threads(sim, 2, [&](int r) {
      OK(cudaSetDevice(0));
      ncclComm_t comm = nullptr;
      REQUIRE(ncclCommInitRank(&comm, 2, id, r) == ncclInvalidUsage);
      REQUIRE(comm == nullptr);
    });
    ncclComm_t comms[2];
    const int devices[] = {1, 1};
    REQUIRE(ncclCommInitAll(comms, 2, devices) == ncclInvalidUsage);
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.counts().live_communicators == 0);
  });
}

TEST_CASE("one thread that drives several ranks must group them", "[cuda-sim]") {
  for (const bool groups : {true, false})
    under_seeds(2, 10, [groups](SimCuda& sim) {
      ncclComm_t comms[2];
      NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
      if (groups) NCCL_OK(ncclGroupStart());
      for (int r = 0; r < 2; ++r) {
        OK(cudaSetDevice(r));
        float* p = device_memory(8);
        NCCL_OK(ncclAllReduce(p, p, 8, ncclFloat, ncclSum, comms[r], make_stream()));
      }
      if (groups) NCCL_OK(ncclGroupEnd());
      sim.run_rest();
      REQUIRE(sim.reports().empty() == groups);
      if (!groups) REQUIRE(reported(sim, "on several ranks outside of a group"));
    });
}

TEST_CASE("two communicators in different orders are reported on every schedule", "[cuda-sim]") {
  for (const bool same : {true, false})
    under_seeds(2, 20, [same](SimCuda& sim) {
      ncclUniqueId second;
      NCCL_OK(ncclGetUniqueId(&second));
      on_ranks(sim, 2, [&](const Rank& r) {
        ncclComm_t other = nullptr;
        NCCL_OK(ncclCommInitRank(&other, 2, second, r.number));
        const auto issue = [&](bool first) {
          if (first) return r.reduce();
          return ncclAllReduce(r.more, r.more, 8, ncclFloat, ncclSum, other,
                               same ? r.stream : r.other);
        };
        const bool first = same || r.number == 0;
        // A deadlock is possible: then the calls say so.
        if (issue(first) != ncclSuccess || issue(!first) != ncclSuccess) return;
        cudaStreamSynchronize(r.stream);
        cudaStreamSynchronize(r.other);
      });
      REQUIRE(sim.reports().empty() == same);
      if (!same) REQUIRE(reported(sim, "two communicators in different orders"));
    });
}

TEST_CASE("allocation while collectives may be queued is reported", "[cuda-sim]") {
  for (int what = 0; what < 4; ++what)
    for (const bool waits : {true, false})
      under_seeds(2, 10, [&](SimCuda& sim) {
        on_ranks(sim, 2, [&](const Rank& r) {
          void* p = nullptr;
          NCCL_OK(r.reduce());
          if (waits) OK(cudaStreamSynchronize(r.stream));
          if (what == 0) OK(cudaMalloc(&p, 8));
          if (what == 1) OK(cudaFree(r.more));
          if (what == 2) OK(cudaMallocHost(&p, 8));
          if (what == 3) OK(cudaFreeHost(r.pinned));
        });
        REQUIRE(sim.reports().empty() == waits);
        if (!waits) REQUIRE(reported(sim, "while a collective may be queued on cuda:"));
      });
}

TEST_CASE("memory taken while another GPU may wait for this one is reported", "[cuda-sim]") {
  for (const bool sends : {false, true})
    for (const bool ordered : {false, true})
      under_seeds(2, 20, [&](SimCuda& sim) {
        on_ranks(sim, 2, [&](const Rank& r) {
          ncclComm_t after = nullptr;
          void* p = nullptr;
          if (r.number == 1) OK(cudaMalloc(&p, 8));
          if (ordered) NCCL_OK(ncclCommSplit(r.comm, 0, 0, &after, nullptr));  // hosts meet
          if (!sends) NCCL_OK(r.reduce());
          if (sends && r.number == 0) NCCL_OK(ncclSend(r.data, 8, ncclFloat, 1, r.comm, r.stream));
          if (sends && r.number == 1) NCCL_OK(ncclRecv(r.data, 8, ncclFloat, 0, r.comm, r.stream));
        });
        sim.run_rest();
        REQUIRE(sim.reports().empty() == ordered);
        if (!ordered)
          REQUIRE(reported(sim, "memory of cuda:1 is taken or given back while cuda:0 may wait"));
      });
}

TEST_CASE("abort frees the streams of its rank, and not of others", "[cuda-sim]") {
  under_seeds(3, 20, [](SimCuda& sim) {
    ncclComm_t comms[3] = {};
    on_ranks(sim, 3, [&](const Rank& r) {
      comms[r.number] = r.comm;
      if (r.number == 2) {  // does not take part, and ends it for all
        while (comms[0] == nullptr || comms[1] == nullptr) {
          int count = 0;
          OK(cudaGetDeviceCount(&count));
          sim.scheduler().progress();
        }
        for (const ncclComm_t c : comms) NCCL_OK(ncclCommAbort(c));
        return;
      }
      if (r.reduce() != ncclSuccess) return;  // aborted already
      OK(cudaStreamSynchronize(r.stream));
      OK(cudaMemsetAsync(r.data, 0, 4, r.stream));  // the stream is usable
      OK(cudaStreamSynchronize(r.stream));
    });
    REQUIRE(sim.counts().live_communicators == 0);
    for (const std::string& report : sim.reports())
      REQUIRE(report.find("uses a communicator that does not exist") != std::string::npos);
  });
  under_seeds(2, 10, [](SimCuda& sim) {
    ncclComm_t comms[2];
    NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
    cudaStream_t s = make_stream();
    float* p = device_memory(8);
    NCCL_OK(ncclAllReduce(p, p, 8, ncclFloat, ncclSum, comms[0], s));
    NCCL_OK(ncclCommAbort(comms[1]));  // the other rank's
    REQUIRE(cudaStreamSynchronize(s) == cudaErrorLaunchTimeout);
    REQUIRE(reported(sim, "deadlock in "));
  });
}

TEST_CASE("an aborted communicator frees what is queued behind other work too", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    on_ranks(sim, 2, [&](const Rank& r) {
      if (r.number == 1) {
        NCCL_OK(ncclCommAbort(r.comm));
        return;
      }
      for (int i = 0; i < 3; ++i) NCCL_OK(r.reduce());
      NCCL_OK(ncclRecv(r.more, 4, ncclFloat, 1, r.comm, r.stream));
      NCCL_OK(ncclCommAbort(r.comm));
      OK(cudaStreamSynchronize(r.stream));
    });
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("an asynchronous error hangs the collective and shows on every rank", "[cuda-sim]") {
  for (const std::uint64_t nth : {1, 3})
    under_seeds(2, 10, [nth](SimCuda& sim) {
      sim.break_collective(nth, ncclRemoteError);
      on_ranks(sim, 2, [&](const Rank& r) {
        std::uint64_t done = 0;
        ncclResult_t state = ncclSuccess;
        while (state == ncclSuccess) {
          ncclResult_t e = r.reduce();
          if (e != ncclSuccess) {
            REQUIRE(e == ncclRemoteError);
            break;
          }
          cudaError_t running = cudaErrorNotReady;
          while (running == cudaErrorNotReady && state == ncclSuccess) {
            running = cudaStreamQuery(r.stream);
            NCCL_OK(ncclCommGetAsyncError(r.comm, &state));
          }
          if (running == cudaSuccess) ++done;
        }
        NCCL_OK(ncclCommGetAsyncError(r.comm, &state));
        REQUIRE(state == ncclRemoteError);
        REQUIRE(done < nth);
        NCCL_OK(ncclCommAbort(r.comm));
        OK(cudaStreamSynchronize(r.stream));
      });
      REQUIRE(sim.reports() == kNothing);
    });
  under_seeds(2, 10, [](SimCuda& sim) {  // who does not look waits for ever
    sim.break_collective(1, ncclRemoteError);
    on_ranks(sim, 2, [&](const Rank& r) {
      if (r.reduce() == ncclSuccess)
        REQUIRE(cudaStreamSynchronize(r.stream) == cudaErrorLaunchTimeout);
    });
    REQUIRE(reported(sim, "deadlock in "));
  });
}

TEST_CASE("wrong arguments of collectives are refused", "[cuda-sim]") {
  under_seeds(2, 5, [](SimCuda& sim) {
    on_ranks(sim, 2, [&](const Rank& r) {
      REQUIRE(ncclBroadcast(r.data, r.data, 8, ncclFloat, 2, r.comm, r.stream) ==
              ncclInvalidArgument);
      REQUIRE(ncclAllReduce(r.data, r.data, 8, ncclFloat8e4m3, ncclSum, r.comm, r.stream) ==
              ncclInvalidArgument);
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclGroupEnd());
    });
    REQUIRE(sim.reports() == kNothing);
    on_ranks(sim, 2, [&](const Rank& r) {
      REQUIRE(ncclAllReduce(r.data, r.data + 1, 8, ncclFloat, ncclSum, r.comm, r.stream) ==
              ncclInvalidArgument);
    });
    REQUIRE(reported(sim, "buffers that overlap"));
  });
  under_seeds(2, 5, [](SimCuda& sim) {
    ncclComm_t comms[2];
    NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
    cudaStream_t s = make_stream();
    float* p = device_memory(8);
    REQUIRE(ncclAllReduce(p, p, 8, ncclFloat, ncclSum, comms[1], s) == ncclUnhandledCudaError);
    REQUIRE(reported(sim, "on a stream of another device than its communicator's"));
    NCCL_OK(ncclCommDestroy(comms[0]));
    REQUIRE(ncclAllReduce(p, p, 8, ncclFloat, ncclSum, comms[0], s) == ncclInvalidArgument);
    REQUIRE(reported(sim, "uses a communicator that does not exist"));
    REQUIRE(ncclGetLastError(nullptr) != nullptr);
  });
}

TEST_CASE("a send and a receive of different sizes are reported", "[cuda-sim]") {
  under_seeds(2, 10, [](SimCuda& sim) {
    on_ranks(sim, 2, [&](const Rank& r) {
      const ncclResult_t e = r.number == 0 ? ncclSend(r.data, 4, ncclFloat, 1, r.comm, r.stream)
                                           : ncclRecv(r.data, 5, ncclFloat, 0, r.comm, r.stream);
      if (e != ncclSuccess) REQUIRE(e == ncclInvalidArgument);
      NCCL_OK(ncclCommAbort(r.comm));
      OK(cudaStreamSynchronize(r.stream));
    });
    REQUIRE(reported(sim, "a send and its receive differ in size"));
  });
}

TEST_CASE("collectives touch their buffers until they end", "[cuda-sim]") {
  for (const bool waits : {true, false})
    under_seeds(2, 20, [waits](SimCuda& sim) {
      on_ranks(sim, 2, [&](const Rank& r) {
        cudaEvent_t e = make_event();
        NCCL_OK(r.reduce());
        OK(cudaEventRecord(e, r.stream));
        if (waits) OK(cudaStreamWaitEvent(r.other, e, 0));
        OK(cudaMemsetAsync(r.data, 0, 4, r.other));
        OK(cudaStreamSynchronize(r.other));
        OK(cudaStreamSynchronize(r.stream));
      });
      sim.run_rest();
      REQUIRE(sim.reports().empty() == waits);
    });
  under_seeds(2, 10, [](SimCuda& sim) {  // past the end of its allocation
    on_ranks(sim, 2, [&](const Rank& r) {
      NCCL_OK(r.reduce(kFloats + 1));
      cudaStreamSynchronize(r.stream);
    });
    REQUIRE(reported(sim, "touches memory past the end of its allocation"));
  });
}

TEST_CASE("a group that mixes inits or captures with collectives is reported", "[cuda-sim]") {
  under_seeds(2, 5, [](SimCuda& sim) {
    ncclComm_t comms[2], copies[2];
    NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r) {
      OK(cudaSetDevice(r));
      float* p = device_memory(8);
      NCCL_OK(ncclCommSplit(comms[r], 0, r, &copies[r], nullptr));
      NCCL_OK(ncclAllReduce(p, p, 8, ncclFloat, ncclSum, comms[r], make_stream()));
    }
    NCCL_OK(ncclGroupEnd());
    REQUIRE(reported(sim, "both the init of communicators and collectives"));
  });
}

}  // namespace belfry::sim
