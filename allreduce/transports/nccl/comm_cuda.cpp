// SPDX-License-Identifier: MIT
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "belfry/allreduce/transports/nccl/nccl_internal.h"
#include "belfry/autodiff/tensor.h"

namespace belfry::nccl {
namespace {

// While it lives, the tower's thread may call NCCL and nobody aborts the communicator, at least not
// before it had time to leave.
class Inside {
 public:
  Inside(const Shared& shared, Member& member) : member_(member) {
    member_.inside.store(true);  // seq_cst, as the watchdog's read: one of the two sees the other
    if (!shared.failed()) return;
    leave();
    shared.require_healthy();
  }
  ~Inside() { leave(); }  // an abort that waits for it looks again when its grace is over
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  void leave() { member_.inside.store(false); }
  Member& member_;
};

// Calls that are one operation. An open group would swallow the thread's next calls: it is closed
// before the first error is said.
template <class Checked>
class Grouped {
 public:
  explicit Grouped(const Checked& checked) : checked_(checked) {
    checked(ncclGroupStart(), "ncclGroupStart");
  }
  void operator()(ncclResult_t result, const char* call) {
    if (result_ != ncclSuccess) return;
    result_ = result;
    failed_ = call;
  }
  void end() {
    (*this)(ncclGroupEnd(), "ncclGroupEnd");
    checked_(result_, failed_);
  }

 private:
  const Checked& checked_;
  ncclResult_t result_ = ncclSuccess;
  const char* failed_ = "";
};

// What members compare with check_tags: words, then for an exchange all counts.
std::vector<std::byte> encode(const std::string& text, std::span<const std::size_t> send,
                              std::span<const std::size_t> recv) {
  std::vector<std::byte> out((1 + send.size() + recv.size()) * sizeof(std::size_t) + text.size());
  std::byte* at = out.data();
  const auto put = [&at](const void* data, std::size_t bytes) {
    if (bytes != 0) std::memcpy(at, data, bytes);
    at += bytes;
  };
  const std::size_t counts = send.size();
  put(&counts, sizeof counts);
  put(send.data(), send.size_bytes());
  put(recv.data(), recv.size_bytes());
  put(text.data(), text.size());
  return out;
}

struct Said {
  std::vector<std::size_t> send, recv;
  std::string text;
};

Said decode(const std::vector<std::byte>& bytes) {
  std::size_t counts = 0;
  std::memcpy(&counts, bytes.data(), sizeof counts);
  Said out;
  out.send.resize(counts);
  out.recv.resize(counts);
  const std::byte* at = bytes.data() + sizeof counts;
  const std::size_t size = counts * sizeof(std::size_t);
  if (counts != 0) {
    std::memcpy(out.send.data(), at, size);
    std::memcpy(out.recv.data(), at + size, size);
  }
  at += 2 * size;
  out.text.assign(reinterpret_cast<const char*>(at),
                  reinterpret_cast<const char*>(bytes.data() + bytes.size()));
  return out;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Shared> shared, int tower, Watchdog& watchdog)
      : shared_(std::move(shared)),
        member_(*shared_->members.at(static_cast<std::size_t>(tower))),
        watchdog_(watchdog),
        tags_(threads::make_control(shared_->tags, tower)),
        control_(threads::make_control(shared_->group, tower)) {}
  int rank() const noexcept override { return member_.tower; }
  int size() const noexcept override { return static_cast<int>(shared_->members.size()); }

  void exchange(Stream& s, std::span<const void* const> send,
                std::span<const std::size_t> send_bytes, std::span<void* const> recv,
                std::span<const std::size_t> recv_bytes, CommTag tag) override {
    const Call call{"exchange", tag};
    Member::Slot* slot = enter(call, call.text(), send_bytes, recv_bytes);
    const auto me = static_cast<std::size_t>(rank());
    if (send_bytes[me] != 0 && send[me] != recv[me]) s.copy(recv[me], send[me], send_bytes[me]);
    issue(s, call, slot, [&](const auto& checked, cudaStream_t stream) {
      Grouped group(checked);
      for (std::size_t p = 0; p < send.size(); ++p) {
        if (p == me) continue;
        const int peer = static_cast<int>(p);
        if (send_bytes[p] != 0)
          group(ncclSend(send[p], send_bytes[p], ncclUint8, peer, member_.comm, stream),
                "ncclSend");
        if (recv_bytes[p] != 0)
          group(ncclRecv(recv[p], recv_bytes[p], ncclUint8, peer, member_.comm, stream),
                "ncclRecv");
      }
      group.end();
    });
  }

  void all_gather(Stream& s, const void* in, void* out, std::size_t bytes, CommTag tag) override {
    const Call call{"all_gather", tag};
    Member::Slot* slot = enter(call, call.text() + " of " + std::to_string(bytes) + " bytes");
    issue(s, call, slot, [&](const auto& checked, cudaStream_t stream) {
      if (bytes != 0)
        checked(ncclAllGather(in, out, bytes, ncclUint8, member_.comm, stream), "ncclAllGather");
    });
  }

  void broadcast(Stream& s, void* data, std::size_t bytes, int root, CommTag tag) override {
    const Call call{"broadcast", tag};
    Member::Slot* slot = enter(call, call.text() + " of " + std::to_string(bytes) +
                                         " bytes from tower " + std::to_string(root));
    issue(s, call, slot, [&](const auto& checked, cudaStream_t stream) {
      if (bytes != 0)
        checked(ncclBroadcast(data, data, bytes, ncclUint8, root, member_.comm, stream),
                "ncclBroadcast");
    });
  }

  bool reduce_slices(Stream& s, const float* in, float* out, std::span<const std::size_t> counts,
                     CommTag tag) override {
    const Call call{"reduce_slices", tag};
    std::string text = call.text() + " of";
    for (const std::size_t count : counts) text += " " + std::to_string(count);
    Member::Slot* slot = enter(call, text + " floats");
    const bool equal = std::equal(counts.begin() + 1, counts.end(), counts.begin());
    issue(s, call, slot, [&](const auto& checked, cudaStream_t stream) {
      if (equal && counts[0] != 0)
        checked(ncclReduceScatter(in, out, counts[0], ncclFloat32, ncclSum, member_.comm, stream),
                "ncclReduceScatter");
      if (equal) return;
      Grouped group(checked);
      for (std::size_t p = 0; p < counts.size(); in += counts[p++])
        if (counts[p] != 0)
          group(ncclReduce(in, out, counts[p], ncclFloat32, ncclSum, static_cast<int>(p),
                           member_.comm, stream),
                "ncclReduce");
      group.end();
    });
    return true;
  }

  bool healthy() const noexcept override { return !shared_->failed(); }
  void require_healthy() const override { shared_->require_healthy(); }
  void abort() noexcept override {
    shared_->fail({.what = "the group was aborted by tower " + std::to_string(rank()),
                   .fix = "destroy it; the first error says why",
                   .tower = rank()});
  }
  void close() override {
    shared_->require_healthy();
    control_->barrier();
    if (rank() == 0) watchdog_.end();
    control_->barrier();
    close_communicator(*shared_, member_);
  }

 private:
  // Counts the collective, and with check_tags compares it with the other members' before anything
  // moves.
  Member::Slot* enter(const Call& call, const std::string& text,
                      std::span<const std::size_t> send = {},
                      std::span<const std::size_t> recv = {}) {
    shared_->require_healthy();
    Member::Slot* slot = member_.enter(call);
    if (shared_->check_tags) compare(call, text, encode(text, send, recv));
    return slot;
  }

  void compare(const Call& call, const std::string& text, const std::vector<std::byte>& mine) {
    std::vector<Said> all;
    try {
      for (const auto& bytes : tags_->all_gather(mine)) all.push_back(decode(bytes));
    } catch (const CommError&) {
      shared_->require_healthy();
      throw;
    }
    const auto differ = [&](std::size_t p, const std::string& found, std::size_t q,
                            const std::string& expected) {
      ErrorText error{.what = "towers issued different collectives",
                      .found = "tower " + std::to_string(p) + ": " + found,
                      .expected = "as tower " + std::to_string(q) + ": " + expected,
                      .tower = rank(),
                      .update = call.tag.update};
      shared_->fail(error);
      throw CommError(error);
    };
    for (std::size_t p = 0; p < all.size(); ++p)
      if (all[p].text != text) differ(p, all[p].text, static_cast<std::size_t>(rank()), text);
    for (std::size_t p = 0; p < all.size(); ++p)
      for (std::size_t q = 0; q < all[p].send.size(); ++q)
        if (all[p].send[q] != all[q].recv[p])
          differ(p, std::to_string(all[p].send[q]) + " bytes sent in " + text, q,
                 std::to_string(all[q].recv[p]) + " bytes to receive");
  }

  // Runs `calls` in NCCL and marks the stream behind it for the watchdog.
  template <class F>
  void issue(Stream& s, const Call& call, Member::Slot* slot, F calls) {
    {
      const Inside inside(*shared_, member_);
      calls([&](ncclResult_t result,
                const char* name) { check(result, name, *shared_, member_, call); },
            static_cast<cudaStream_t>(s.native()));
    }
    if (slot == nullptr) return;
    if (!slot->event) slot->event = member_.device.event();
    s.record(*slot->event);
    slot->recorded.store(true, std::memory_order_release);
  }

  std::shared_ptr<Shared> shared_;
  Member& member_;
  Watchdog& watchdog_;
  std::unique_ptr<Control> tags_, control_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Shared> shared, int tower,
                                                Watchdog& watchdog) {
  return std::make_unique<NcclCommunicator>(std::move(shared), tower, watchdog);
}

void close_communicator(Shared& shared, Member& member) {
  ncclComm_t comm = std::exchange(member.comm, nullptr);
  if (comm == nullptr) return;
  if (shared.failed()) {
    ncclCommAbort(comm);
    return;
  }
  if (const ncclResult_t result = ncclCommFinalize(comm); result != ncclSuccess) {
    ncclCommAbort(comm);
    check(result, "ncclCommFinalize", shared, member, {});
  }
  check(ncclCommDestroy(comm), "ncclCommDestroy", shared, member, {});
}

}  // namespace belfry::nccl
