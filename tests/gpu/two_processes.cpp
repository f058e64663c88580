// SPDX-License-Identifier: MIT
// NCCL between two processes on one GPU. It refuses two ranks of one host on one GPU, and knows a
// host by NCCL_HOSTID: two processes that differ in it pass as two hosts and talk by sockets.
// Prints what each found. Exit status 0: every collective gave what it should.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 2;
constexpr unsigned kSeconds = 100;  // of each process, at most
constexpr std::size_t kCount = 1 << 16, kPart = kCount / kRanks;

// Ends the process with the call that failed.
class Rank {
 public:
  Rank(int rank, const ncclUniqueId& id) : rank_(rank) {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(ncclCommInitRank(&comm_, kRanks, id, rank_), "ncclCommInitRank");
    for (float** p : {&from_, &to_})
      check(cudaMalloc(reinterpret_cast<void**>(p), kCount * sizeof(float)), "cudaMalloc");
  }
  void check(cudaError_t code, const char* call) const {
    if (code != cudaSuccess) fail(call, cudaGetErrorString(code));
  }
  void check(ncclResult_t code, const char* call) const {
    if (code != ncclSuccess) fail(call, ncclGetLastError(nullptr));
  }
  // `call` moves from from() to to(); element i of the result's first `n` should be want(i).
  template <class Call, class Want>
  void expect(const char* name, std::size_t n, Call call, Want want) const {
    std::vector<float> host(kCount);
    for (std::size_t i = 0; i < kCount; ++i) host[i] = value(rank_, i);
    check(cudaMemcpy(from_, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaMemset(to_, 0xff, kCount * sizeof(float)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(call(), name);
    check(cudaStreamSynchronize(stream_), name);
    check(cudaMemcpy(host.data(), to_, n * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::size_t i = 0; i < n; ++i)
      if (host[i] != want(i)) fail(name, "element " + std::to_string(i) + " is wrong");
    std::printf("rank %d: %s is right\n", rank_, name);
  }
  static float value(int rank, std::size_t i) {
    return static_cast<float>(rank + 1) * static_cast<float>(i % 1000);
  }
  void all() const;
  void end() const { check(ncclCommDestroy(comm_), "ncclCommDestroy"); }

 private:
  [[noreturn]] void fail(const char* call, const std::string& why) const {
    std::printf("rank %d: %s: %s\n", rank_, call, why.c_str());
    std::fflush(stdout);
    _exit(1);
  }
  int rank_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  float *from_ = nullptr, *to_ = nullptr;
};

void Rank::all() const {
  const int other = 1 - rank_;
  const auto sum = [](std::size_t i) { return value(0, i) + value(1, i); };
  expect(
      "ncclSend and ncclRecv in a group", kCount,
      [&] {
        check(ncclGroupStart(), "ncclGroupStart");
        check(ncclSend(from_, kCount, ncclFloat, other, comm_, stream_), "ncclSend");
        check(ncclRecv(to_, kCount, ncclFloat, other, comm_, stream_), "ncclRecv");
        return ncclGroupEnd();
      },
      [&](std::size_t i) { return value(other, i); });
  expect(
      "ncclReduceScatter", kPart,
      [&] { return ncclReduceScatter(from_, to_, kPart, ncclFloat, ncclSum, comm_, stream_); },
      [&](std::size_t i) { return sum(static_cast<std::size_t>(rank_) * kPart + i); });
  expect(
      "ncclAllGather", kCount,
      [&] { return ncclAllGather(from_, to_, kPart, ncclFloat, comm_, stream_); },
      [&](std::size_t i) { return value(static_cast<int>(i / kPart), i % kPart); });
  expect(
      "ncclBroadcast", kCount,
      [&] { return ncclBroadcast(from_, to_, kCount, ncclFloat, 1, comm_, stream_); },
      [&](std::size_t i) { return value(1, i); });
  expect(
      "ncclAllReduce", kCount,
      [&] { return ncclAllReduce(from_, to_, kCount, ncclFloat, ncclSum, comm_, stream_); }, sum);
}

// In a process of its own: the first use of CUDA comes after the fork.
int run(int rank, const int* pipe_ends) {
  alarm(kSeconds);
  setenv("NCCL_HOSTID", ("belfry" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_IB_DISABLE", "1", 0);
  setenv("NCCL_DEBUG", "WARN", 0);
  ncclUniqueId id;
  if (rank == 0) {
    if (const ncclResult_t code = ncclGetUniqueId(&id); code != ncclSuccess) {
      std::printf("ncclGetUniqueId: %s\n", ncclGetLastError(nullptr));
      return 1;
    }
    if (write(pipe_ends[1], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 1;
  } else {
    close(pipe_ends[1]);  // so that rank 0's end shows
    if (read(pipe_ends[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) {
      std::printf("rank 1: rank 0 gave no id\n");
      return 1;
    }
  }
  const Rank r(rank, id);
  r.all();
  r.end();
  return 0;
}

}  // namespace

int main() {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  pid_t processes[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    processes[r] = fork();
    if (processes[r] < 0) return 1;
    if (processes[r] == 0) {
      const int code = run(r, ends);
      std::fflush(stdout);
      _exit(code);
    }
  }
  close(ends[0]);
  close(ends[1]);
  int bad = 0;
  for (int left = kRanks; left > 0; --left) {
    int status = 0;
    const pid_t done = wait(&status);
    if (status == 0) continue;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
      std::printf("time-out after %u s\n", kSeconds);
    ++bad;
    for (const pid_t p : processes)
      if (p != done) kill(p, SIGKILL);  // it would wait for the other for ever
    for (; left > 1; --left) wait(nullptr);
  }
  std::printf("%s\n", bad == 0 ? "two processes on one GPU: every collective is right" : "failed");
  return bad == 0 ? 0 : 1;
}
