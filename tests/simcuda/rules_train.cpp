// SPDX-License-Identifier: MIT
// A small data-parallel training program, written as the product is: streams for compute and for
// communication, events between them, a staging buffer, one all-reduce for each bucket.
#include <set>

#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

constexpr int kLayers = 4, kBuckets = 2, kSteps = 3;
constexpr std::size_t kWidth = 32, kAll = kLayers * kWidth, kBucket = kAll / kBuckets;
constexpr float kRate = 0.5f;

float input(int step, int rank, std::size_t i) {
  return static_cast<float>((step * 7 + rank * 3 + static_cast<int>(i)) % 5);
}

struct Gradient {
  static constexpr const char* name = "gradient";
  const float *w, *x;
  float* g;
  void operator()(std::size_t i) const { g[i] = 0.25f * w[i] + x[i]; }
  void touches(Touches& t, std::size_t n) const {
    t.reads(w, n * sizeof(float)).reads(x, n * sizeof(float)).writes(g, n * sizeof(float));
  }
};

struct Update {
  static constexpr const char* name = "update";
  const float* g;
  float* w;
  float rate;
  void operator()(std::size_t i) const { w[i] -= rate * g[i]; }
  void touches(Touches& t, std::size_t n) const {
    t.reads(g, n * sizeof(float)).reads(w, n * sizeof(float)).writes(w, n * sizeof(float));
  }
};

std::vector<float> reference(int ranks) {
  std::vector<float> w(kAll, 1);
  for (int s = 0; s < kSteps; ++s)
    for (std::size_t i = 0; i < kAll; ++i) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r) sum += 0.25f * w[i] + input(s, r, i % kWidth);
      w[i] -= kRate / static_cast<float>(ranks) * sum;
    }
  return w;
}

struct Options {
  int ranks = 3;
  bool graph = false;
  int fault = 0;
};

enum Fault {
  kNone,
  kNoReady,      // communication does not wait for the gradients
  kNoAveraged,   // the update does not wait for communication
  kNoCopied,     // the host writes the staging buffer while it is read
  kNoFinal,      // the host reads the result too early
  kOtherCount,   // rank 1 averages one element less
  kLeftOut,      // rank 1 leaves out a bucket
  kTooLong,      // a kernel past the end of its buffer
  kOtherDevice,  // rank 1 forgets to set its device
  kFreesEarly    // memory is freed beside collectives
};

// One rank; every call's error ends it.
class Worker {
 public:
  Worker(const Options& o, int rank) : o_(o), rank_(rank) {}
  bool good() const { return error_ == cudaSuccess && nccl_ == ncclSuccess; }
  std::vector<float> result;

  void run(const ncclUniqueId& id) {
    open();
    if (good()) check(ncclCommInitRank(&comm_, o_.ranks, id, rank_));
    if (good() && is(kOtherDevice)) check(cudaSetDevice(0));
    if (good() && o_.graph) capture();
    for (int s = 0; good() && s < kSteps; ++s) {
      stage(s);
      if (o_.graph) {
        check(cudaGraphLaunch(exec_, compute_));
      } else {
        step();
      }
    }
    finish();
    close();
  }

 private:
  bool is(int fault) const { return o_.fault == fault && (fault < kOtherCount || rank_ == 1); }
  void check(cudaError_t e) {
    if (error_ == cudaSuccess) error_ = e;
  }
  void check(ncclResult_t e) {
    if (nccl_ == ncclSuccess) nccl_ = e;
  }
  float* device(std::size_t n) {
    void* p = nullptr;
    if (good()) check(cudaMalloc(&p, n * sizeof(float)));
    blocks_.push_back(p);
    return static_cast<float*>(p);
  }
  float* pinned(std::size_t n) {
    void* p = nullptr;
    if (good()) check(cudaMallocHost(&p, n * sizeof(float)));
    return static_cast<float*>(p);
  }

  void open() {
    check(cudaSetDevice(rank_));
    for (cudaStream_t* s : {&compute_, &communication_})
      if (good()) check(cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, 0));
    for (cudaEvent_t* e : {&copied_, &averaged_, &ready_[0], &ready_[1]})
      if (good()) check(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    w_ = device(kAll);
    g_ = device(kAll);
    x_ = device(kWidth);
    stage_ = pinned(kWidth);
    out_ = pinned(kAll);
    if (!good()) return;
    belfry_sim_host_access(Touches().writes(out_, kAll * sizeof(float)));
    std::fill(out_, out_ + kAll, 1.0f);
    check(cudaMemcpyAsync(w_, out_, kAll * sizeof(float), cudaMemcpyHostToDevice, compute_));
    if (good()) check(cudaStreamSynchronize(compute_));
  }

  void stage(int s) {
    if (s > 0 && o_.fault != kNoCopied)
      check(o_.graph ? cudaStreamSynchronize(compute_) : cudaEventSynchronize(copied_));
    if (!good()) return;
    belfry_sim_host_access(Touches().writes(stage_, kWidth * sizeof(float)));
    for (std::size_t i = 0; i < kWidth; ++i) stage_[i] = input(s, rank_, i);
  }

  void step() {
    check(cudaMemcpyAsync(x_, stage_, kWidth * sizeof(float), cudaMemcpyHostToDevice, compute_));
    if (good()) check(cudaEventRecord(copied_, compute_));
    for (int l = 0; good() && l < kLayers; ++l) {
      const std::size_t at = static_cast<std::size_t>(l) * kWidth;
      const std::size_t n = is(kTooLong) && l == kLayers - 1 ? kWidth + 1 : kWidth;
      check(launch(Gradient{w_ + at, x_, g_ + at}, n, compute_));
      if (good() && (l + 1) % (kLayers / kBuckets) == 0) average(l / (kLayers / kBuckets));
    }
    if (good()) check(cudaEventRecord(averaged_, communication_));
    if (is(kFreesEarly)) check(cudaFree(std::exchange(blocks_.back(), nullptr)));
    if (good() && !is(kNoAveraged)) check(cudaStreamWaitEvent(compute_, averaged_, 0));
    if (good()) check(launch(Update{g_, w_, kRate / static_cast<float>(o_.ranks)}, kAll, compute_));
    if (good() && is(kNoAveraged)) check(cudaStreamWaitEvent(compute_, averaged_, 0));
  }

  void average(int bucket) {
    check(cudaEventRecord(ready_[bucket], compute_));
    if (good() && !is(kNoReady)) check(cudaStreamWaitEvent(communication_, ready_[bucket], 0));
    if (!good() || (is(kLeftOut) && bucket == 0)) return;
    float* const p = g_ + static_cast<std::size_t>(bucket) * kBucket;
    check(ncclAllReduce(p, p, is(kOtherCount) ? kBucket - 1 : kBucket, ncclFloat, ncclSum, comm_,
                        communication_));
  }

  void capture() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
    if (good()) step();
    if (good()) check(cudaStreamEndCapture(compute_, &graph));
    if (good()) check(cudaGraphInstantiate(&exec_, graph, 0));
    if (good()) check(cudaGraphDestroy(graph));
  }

  void finish() {
    if (good())
      check(cudaMemcpyAsync(out_, w_, kAll * sizeof(float), cudaMemcpyDeviceToHost, compute_));
    if (good() && o_.fault != kNoFinal) check(cudaStreamSynchronize(compute_));
    if (!good()) return;
    belfry_sim_host_access(Touches().reads(out_, kAll * sizeof(float)));
    result.assign(out_, out_ + kAll);
  }

  void close() {
    if (comm_ != nullptr) {
      if (!good()) ncclCommAbort(comm_);  // what waits for the others goes on
      if (good()) {
        check(cudaStreamSynchronize(communication_));
        check(ncclCommDestroy(comm_));
      }
    }
    if (exec_ != nullptr) check(cudaGraphExecDestroy(exec_));
    for (void* p : blocks_) check(cudaFree(p));
    for (float* p : {stage_, out_}) check(cudaFreeHost(p));
    for (cudaStream_t s : {compute_, communication_})
      if (s != nullptr) check(cudaStreamDestroy(s));
    for (cudaEvent_t e : {copied_, averaged_, ready_[0], ready_[1]})
      if (e != nullptr) check(cudaEventDestroy(e));
  }

  Options o_;
  int rank_;
  cudaError_t error_ = cudaSuccess;
  ncclResult_t nccl_ = ncclSuccess;
  cudaStream_t compute_ = nullptr, communication_ = nullptr;
  cudaEvent_t copied_ = nullptr, averaged_ = nullptr, ready_[kBuckets] = {};
  float *w_ = nullptr, *g_ = nullptr, *x_ = nullptr, *stage_ = nullptr, *out_ = nullptr;
  std::vector<void*> blocks_;
  ncclComm_t comm_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

struct Outcome {
  bool good = true, wrong = false;
  std::vector<std::string> reports;
  std::string leaks;
  std::uint64_t calls = 0;
  std::map<int, std::uint64_t> waits;
  double seconds = 0;
  CudaCounts counts;
};

Outcome train(const Options& o, const SchedulerOptions& options) {
  SimCuda sim(o.ranks, options);
  Outcome out;
  ncclUniqueId id;
  std::vector<Worker> workers;
  for (int r = 0; r < o.ranks; ++r) workers.emplace_back(o, r);
  if (ncclGetUniqueId(&id) == ncclSuccess) {
    on_threads(sim, o.ranks, [&](int r) { workers[static_cast<std::size_t>(r)].run(id); });
  } else {
    out.good = false;
  }
  const std::vector<float> want = reference(o.ranks);
  for (const Worker& w : workers) {
    out.good = out.good && w.good();
    for (std::size_t i = 0; i < w.result.size(); ++i)
      out.wrong = out.wrong || !(std::abs(w.result[i] - want[i]) < 1e-4f);
  }
  sim.run_rest();
  out.reports = sim.reports();
  out.leaks = sim.leaks();
  out.calls = sim.scheduler().calls();
  out.waits = sim.scheduler().waits();
  out.seconds = sim.scheduler().critical_path();
  out.counts = sim.counts();
  return out;
}

}  // namespace

TEST_CASE("a training program is right under every schedule, eager and captured", "[cuda-sim]") {
  for (const int ranks : {1, 2, 4})
    for (const bool graph : {false, true}) {
      std::set<double> seconds;
      for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
        INFO(ranks << " ranks, seed " << seed << (graph ? ", graph" : ""));
        const Outcome out = train({.ranks = ranks, .graph = graph}, {.seed = seed});
        REQUIRE(out.reports == kNothing);
        REQUIRE(out.good);
        REQUIRE(!out.wrong);
        REQUIRE(out.leaks == "");
        REQUIRE(out.counts.pageable_copies == 0);
        REQUIRE(out.counts.collectives == static_cast<std::uint64_t>(ranks * kSteps * kBuckets));
        REQUIRE(out.counts.graph_launches ==
                static_cast<std::uint64_t>(graph ? ranks * kSteps : 0));
        seconds.insert(out.seconds);
      }
      REQUIRE(seconds.size() == 1);  // the modelled time is of the program, not of the schedule
    }
}

TEST_CASE("every wait of the training program is needed, and its loss seen", "[cuda-sim]") {
  for (const bool graph : {false, true}) {
    const Options o{.graph = graph};
    const Outcome whole = train(o, {});
    REQUIRE(whole.waits.at(0) == (graph ? 3 : 3 * kSteps));
    for (const auto& [device, waits] : whole.waits)
      for (std::uint64_t n = 1; n <= waits; ++n)
        for (std::uint64_t seed = 1; seed <= seeds(5); ++seed) {
          INFO("wait " << n << " of device " << device << ", seed " << seed);
          REQUIRE(!train(o, {.seed = seed, .drop_wait = {device, n}}).reports.empty());
        }
  }
}

TEST_CASE("faults of the training program are reported under every schedule", "[cuda-sim]") {
  const std::map<int, const char*> faults{{kNoReady, "race: "},
                                          {kNoAveraged, "race: "},
                                          {kNoCopied, "race: "},
                                          {kNoFinal, "race: "},
                                          {kOtherCount, "ranks issue different collectives"},
                                          {kLeftOut, "deadlock"},
                                          {kTooLong, "past the end of its allocation"},
                                          {kOtherDevice, "of another device than the current one"},
                                          {kFreesEarly, "while a collective may be queued"}};
  for (const auto& [fault, report] : faults)
    for (std::uint64_t seed = 1; seed <= seeds(30); ++seed) {
      const Outcome out = train({.fault = fault}, {.seed = seed});
      INFO("fault " << fault << ", seed " << seed);
      REQUIRE(std::any_of(
          out.reports.begin(), out.reports.end(),
          [text = report](const std::string& r) { return r.find(text) != std::string::npos; }));
    }
}

TEST_CASE("each call of the training program can fail without a hang", "[cuda-sim]") {
  const Options o{.ranks = 2};
  const std::uint64_t calls = train(o, {}).calls;
  REQUIRE(calls > 100);
  for (std::uint64_t n = 1; n <= calls; ++n) {
    INFO("call " << n);
    REQUIRE(!train(o, {.seed = n, .fail_call = n}).good);
  }
}

}  // namespace belfry::sim
