// SPDX-License-Identifier: MIT
// NCCL: what collectives compute, how they are issued, and what is reported.
#include <cstring>

#include "belfry/device/half.h"
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr int kRanks = 4;

struct Rank {
  int device = 0;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
};

// One thread owns all ranks.
std::vector<Rank> all_ranks(int n = kRanks) {
  std::vector<ncclComm_t> comms(n);
  NCCL_OK(ncclCommInitAll(comms.data(), n, nullptr));
  std::vector<Rank> ranks(n);
  for (int d = 0; d < n; ++d) {
    OK(cudaSetDevice(d));
    ranks[d] = {d, make_stream(), comms[d]};
  }
  return ranks;
}

// Calls issue(rank, number) for all in one group and waits for the streams.
template <class F>
void in_group(const std::vector<Rank>& ranks, F issue) {
  NCCL_OK(ncclGroupStart());
  for (std::size_t r = 0; r < ranks.size(); ++r) NCCL_OK(issue(ranks[r], r));
  NCCL_OK(ncclGroupEnd());
  for (const Rank& r : ranks) OK(cudaStreamSynchronize(r.stream));
}

template <class T>
T* upload(const Rank& r, const std::vector<T>& v) {
  OK(cudaSetDevice(r.device));
  return to_device(v, r.stream);
}

// value(rank, i) of every rank through an all-reduce.
template <class T, class F>
std::vector<std::vector<T>> reduced(const std::vector<Rank>& ranks, ncclDataType_t type,
                                    ncclRedOp_t op, std::size_t n, F value) {
  std::vector<T*> data;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::vector<T> v;
    for (std::size_t i = 0; i < n; ++i) v.push_back(T(value(r, i)));
    data.push_back(upload(ranks[r], v));
  }
  in_group(ranks, [&](const Rank& r, std::size_t k) {
    return ncclAllReduce(data[k], data[k], n, type, op, r.comm, r.stream);
  });
  std::vector<std::vector<T>> out;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    out.push_back(from_device(data[r], n, ranks[r].stream));
  return out;
}

template <class T>
void require_sums(ncclDataType_t type) {
  under_seeds(kRanks, 5, [type](SimCuda& sim) {
    const auto ranks = all_ranks();
    const auto value = [](std::size_t r, std::size_t i) { return static_cast<float>(r + i % 7); };
    const auto sum = reduced<T>(ranks, type, ncclSum, 40, value);
    const auto most = reduced<T>(ranks, type, ncclMax, 40, value);
    for (std::size_t r = 0; r < kRanks; ++r)
      for (std::size_t i = 0; i < 40; ++i) {
        REQUIRE(static_cast<float>(sum[r][i]) == static_cast<float>(6 + 4 * (i % 7)));
        REQUIRE(static_cast<float>(most[r][i]) == static_cast<float>(3 + i % 7));
      }
    REQUIRE(sim.reports() == kNothing);
  });
}

}  // namespace

TEST_CASE("all-reduce adds every type", "[cuda-sim]") {
  require_sums<float>(ncclFloat32);
  require_sums<double>(ncclFloat64);
  require_sums<Half>(ncclFloat16);
  require_sums<BFloat16>(ncclBfloat16);
  require_sums<std::int32_t>(ncclInt32);
  require_sums<std::int64_t>(ncclInt64);
  require_sums<std::int8_t>(ncclInt8);
  require_sums<std::uint8_t>(ncclUint8);
}

TEST_CASE("sums of floats depend on the seed and are the same on all ranks", "[cuda-sim]") {
  std::vector<std::vector<float>> seen;
  under_seeds(kRanks, 20, [&](SimCuda& sim) {
    const auto out = reduced<float>(
        all_ranks(), ncclFloat32, ncclSum, 64,
        [](std::size_t r, std::size_t i) { return r == i % 3 ? 1e8f : 1.0f + 0.37f * r; });
    for (const auto& o : out) REQUIRE(o == out[0]);
    if (std::find(seen.begin(), seen.end(), out[0]) == seen.end()) seen.push_back(out[0]);
    REQUIRE(sim.reports() == kNothing);
  });
  REQUIRE(seen.size() >= std::min<std::uint64_t>(3, seeds(20)));
}

TEST_CASE("the mean multiplies before it adds, as NCCL's does", "[cuda-sim]") {
  SimCuda sim(3);
  const auto ranks = all_ranks(3);
  const auto one = [](std::size_t, std::size_t) { return 3.0f; };
  const auto mean = reduced<BFloat16>(ranks, ncclBfloat16, ncclAvg, 2, one);
  const BFloat16 third(1.0f / 3), part(3 * static_cast<float>(third));
  const BFloat16 two(2 * static_cast<float>(part)),
      sum(static_cast<float>(two) + static_cast<float>(part));
  REQUIRE(static_cast<float>(mean[0][0]) == static_cast<float>(sum));
  REQUIRE(reduced<std::int32_t>(ranks, ncclInt32, ncclAvg, 1, [](std::size_t r, std::size_t) {
            return static_cast<float>(r);
          })[0][0] == 1);
}

TEST_CASE("the other collectives move what they should", "[cuda-sim]") {
  under_seeds(kRanks, 10, [](SimCuda& sim) {
    const auto ranks = all_ranks();
    std::vector<float*> wide, narrow;
    for (int r = 0; r < kRanks; ++r) {
      std::vector<float> v;
      for (int i = 0; i < 2 * kRanks; ++i) v.push_back(static_cast<float>(100 * r + i));
      wide.push_back(upload(ranks[r], v));
      narrow.push_back(upload(ranks[r], std::vector<float>(2, -1)));
    }
    in_group(ranks, [&](const Rank& r, std::size_t k) {
      return ncclReduceScatter(wide[k], narrow[k], 2, ncclFloat, ncclSum, r.comm, r.stream);
    });
    for (int r = 0; r < kRanks; ++r)
      REQUIRE(from_device(narrow[r], 2, ranks[r].stream) ==
              std::vector<float>{600.0f + 8 * r, 604.0f + 8 * r});
    in_group(ranks, [&](const Rank& r, std::size_t k) {
      return ncclAllGather(narrow[k], wide[k], 2, ncclFloat, r.comm, r.stream);
    });
    std::vector<float> want;
    for (int r = 0; r < kRanks; ++r) want.insert(want.end(), {600.0f + 8 * r, 604.0f + 8 * r});
    for (int r = 0; r < kRanks; ++r)
      REQUIRE(from_device(wide[r], 2 * kRanks, ranks[r].stream) == want);
    in_group(ranks, [&](const Rank& r, std::size_t k) {
      return ncclBroadcast(narrow[k], narrow[k], 2, ncclFloat, 2, r.comm, r.stream);
    });
    for (int r = 0; r < kRanks; ++r)
      REQUIRE(from_device(narrow[r], 2, ranks[r].stream) == std::vector<float>{616, 620});
    in_group(ranks, [&](const Rank& r, std::size_t k) {
      return ncclReduce(narrow[k], narrow[k], 2, ncclFloat, ncclMin, 1, r.comm, r.stream);
    });
    std::vector<float*> in, out;
    for (int r = 0; r < kRanks; ++r) {
      std::vector<float> v;
      for (int to = 0; to < kRanks; ++to) v.push_back(static_cast<float>(10 * r + to));
      in.push_back(upload(ranks[r], v));
      out.push_back(upload(ranks[r], std::vector<float>(kRanks)));
    }
    in_group(ranks, [&](const Rank& r, std::size_t k) {
      return ncclAlltoAll(in[k], out[k], 1, ncclFloat, r.comm, r.stream);
    });
    for (int r = 0; r < kRanks; ++r)
      REQUIRE(from_device(out[r], kRanks, ranks[r].stream) ==
              std::vector<float>{0.0f + r, 10.0f + r, 20.0f + r, 30.0f + r});
    REQUIRE(sim.reports() == kNothing);
    for (const Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
    REQUIRE(sim.leaks().find("communicators") == std::string::npos);
  });
}

TEST_CASE("sends and receives of a group go on at once", "[cuda-sim]") {
  under_seeds(kRanks, 30, [](SimCuda& sim) {
    const auto ranks = all_ranks();
    std::vector<float*> in, out;
    for (int r = 0; r < kRanks; ++r) {
      std::vector<float> v;
      for (int to = 0; to < kRanks; ++to) v.push_back(static_cast<float>(10 * r + to));
      in.push_back(upload(ranks[r], v));
      out.push_back(upload(ranks[r], std::vector<float>(kRanks)));
    }
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      for (int k = 0; k < kRanks; ++k) {
        const int peer = (r + k) % kRanks;  // itself too
        NCCL_OK(ncclSend(in[r] + peer, 1, ncclFloat, peer, ranks[r].comm, ranks[r].stream));
        NCCL_OK(ncclRecv(out[r] + peer, 1, ncclFloat, peer, ranks[r].comm, ranks[r].stream));
      }
    NCCL_OK(ncclGroupEnd());
    for (int r = 0; r < kRanks; ++r)
      REQUIRE(from_device(out[r], kRanks, ranks[r].stream) ==
              std::vector<float>{0.0f + r, 10.0f + r, 20.0f + r, 30.0f + r});
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("a chain of sends between threads needs no group", "[cuda-sim]") {
  for (const bool waits : {true, false})
    under_seeds(2, 20, [waits](SimCuda& sim) {
      ncclUniqueId id;
      NCCL_OK(ncclGetUniqueId(&id));
      std::vector<float> got;
      on_threads(sim, 2, [&](int r) {
        OK(cudaSetDevice(r));
        cudaStream_t s = make_stream(), other = make_stream();
        cudaEvent_t e = make_event();
        ncclComm_t comm = nullptr;
        float* p = to_device(std::vector<float>(3, r == 0 ? 7 : 0), s);
        NCCL_OK(ncclCommInitRank(&comm, 2, id, r));
        if (r == 0) NCCL_OK(ncclSend(p, 3, ncclFloat, 1, comm, s));
        if (r == 1) NCCL_OK(ncclRecv(p, 3, ncclFloat, 0, comm, s));
        OK(cudaEventRecord(e, s));
        if (waits) OK(cudaStreamWaitEvent(other, e, 0));
        OK(cudaMemsetAsync(p, 0, 4, other));  // the buffer is in use until the end of the send
        OK(cudaStreamSynchronize(other));
        OK(cudaStreamSynchronize(s));
        if (r == 1) got = from_device(p + 1, 2, s);
        NCCL_OK(ncclCommDestroy(comm));
      });
      sim.run_rest();
      REQUIRE(sim.reports().empty() == waits);
      if (waits) REQUIRE(got == std::vector<float>{7, 7});
    });
}

TEST_CASE("nothing of a group is on a stream before its end", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    const auto ranks = all_ranks(2);
    float* p[2] = {upload(ranks[0], std::vector<float>(4, 1)),
                   upload(ranks[1], std::vector<float>(4, 2))};
    cudaEvent_t e = make_event();  // of device 1
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r)
      NCCL_OK(ncclAllReduce(p[r], p[r], 4, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream));
    REQUIRE(sim.counts().collectives == 0);
    REQUIRE(sim.reports() == kNothing);
    OK(cudaEventRecord(e, ranks[1].stream));
    REQUIRE(reported(sim, "before the collectives of an open NCCL group"));
    OK(cudaStreamSynchronize(ranks[0].stream));
    REQUIRE(reported(sim, "cudaStreamSynchronize waits inside of an NCCL group"));
    NCCL_OK(ncclGroupEnd());
    REQUIRE(sim.counts().collectives == 2);
    REQUIRE(from_device(p[0], 4, ranks[0].stream) == std::vector<float>(4, 3));
    REQUIRE(ncclGroupEnd() == ncclInvalidUsage);
    REQUIRE(reported(sim, "ncclGroupEnd without ncclGroupStart"));
  });
}

TEST_CASE("communicators are made by threads together, and split", "[cuda-sim]") {
  under_seeds(kRanks, 20, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    on_threads(sim, kRanks, [&](int r) {
      OK(cudaSetDevice(r));
      ncclComm_t comm = nullptr, half = nullptr;
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      NCCL_OK(ncclCommInitRankConfig(&comm, kRanks, id, r, &config));
      int v = -1;
      NCCL_OK(ncclCommCount(comm, &v));
      REQUIRE(v == kRanks);
      NCCL_OK(ncclCommUserRank(comm, &v));
      REQUIRE(v == r);
      NCCL_OK(ncclCommCuDevice(comm, &v));
      REQUIRE(v == r);
      cudaStream_t s = make_stream();
      float* p = to_device(std::vector<float>(3, static_cast<float>(r)), s);
      // The last rank stays out; the others change their order.
      NCCL_OK(ncclCommSplit(comm, r == 3 ? NCCL_SPLIT_NOCOLOR : 5, -r, &half, nullptr));
      REQUIRE((half == nullptr) == (r == 3));
      if (half != nullptr) {
        NCCL_OK(ncclCommUserRank(half, &v));
        REQUIRE(v == 2 - r);
        NCCL_OK(ncclAllReduce(p, p, 3, ncclFloat, ncclSum, half, s));
        REQUIRE(from_device(p, 3, s) == std::vector<float>(3, 3));
        NCCL_OK(ncclCommDestroy(half));
      }
      NCCL_OK(ncclCommFinalize(comm));
      NCCL_OK(ncclCommDestroy(comm));
    });
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.counts().live_communicators == 0);
  });
}

TEST_CASE("one thread makes all ranks in a group", "[cuda-sim]") {
  under_seeds(2, 5, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    ncclComm_t comm[2];
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r) {
      OK(cudaSetDevice(r));
      NCCL_OK(ncclCommInitRank(&comm[r], 2, id, r));
    }
    NCCL_OK(ncclGroupEnd());
    REQUIRE(sim.reports() == kNothing);
    int version = 0;
    NCCL_OK(ncclGetVersion(&version));
    REQUIRE(version == NCCL_VERSION_CODE);
  });
}

TEST_CASE("a communicator that does not block is ready when all are there", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    on_threads(sim, 2, [&](int r) {
      OK(cudaSetDevice(r));
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm = nullptr;
      REQUIRE(ncclCommInitRankConfig(&comm, 2, id, r, &config) == ncclInProgress);
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) NCCL_OK(ncclCommGetAsyncError(comm, &state));
      NCCL_OK(state);
      NCCL_OK(ncclCommDestroy(comm));
    });
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("collectives are captured, and replayed on all ranks", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    on_threads(sim, 2, [&](int r) {
      OK(cudaSetDevice(r));
      cudaStream_t s = make_stream();
      ncclComm_t comm = nullptr;
      float* p = to_device(std::vector<float>(3, 1), s);
      NCCL_OK(ncclCommInitRank(&comm, 2, id, r));
      OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
      NCCL_OK(ncclAllReduce(p, p, 3, ncclFloat, ncclSum, comm, s));
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      OK(cudaStreamEndCapture(s, &graph));
      OK(cudaGraphInstantiate(&exec, graph, 0));
      for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, s));
      REQUIRE(from_device(p, 3, s) == std::vector<float>(3, 8));
      NCCL_OK(ncclCommDestroy(comm));
    });
    REQUIRE(sim.reports() == kNothing);
    REQUIRE(sim.counts().collectives == 6);
  });
}

TEST_CASE("one communicator on two streams keeps the order of its calls", "[cuda-sim]") {
  under_seeds(2, 20, [](SimCuda& sim) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    on_threads(sim, 2, [&](int r) {
      OK(cudaSetDevice(r));
      cudaStream_t a = make_stream(), b = make_stream();
      ncclComm_t comm = nullptr;
      float *p = to_device(std::vector<float>(3, 1), a),
            *q = to_device(std::vector<float>(3, 1), b);
      NCCL_OK(ncclCommInitRank(&comm, 2, id, r));
      for (int i = 0; i < 3; ++i) {
        NCCL_OK(ncclAllReduce(p, p, 3, ncclFloat, ncclSum, comm, a));
        NCCL_OK(ncclAllReduce(q, q, 3, ncclFloat, ncclSum, comm, b));
      }
      OK(cudaStreamSynchronize(a));
      OK(cudaStreamSynchronize(b));
      NCCL_OK(ncclCommDestroy(comm));
    });
    REQUIRE(sim.reports() == kNothing);
  });
}

}  // namespace belfry::sim
