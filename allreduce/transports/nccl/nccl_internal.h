// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "belfry/allreduce/mover.h"
#include "belfry/allreduce/transports/threads/group_internal.h"

struct ncclComm;

namespace belfry::nccl {

// One collective, in the words of errors.
struct Call {
  const char* what = "";
  CommTag tag{};
  std::string text() const;
};

// A local tower's end, and what its thread tells the watchdog: collectives are counted from 1, in
// the same order on every tower.
struct Member {
  static constexpr std::size_t kWatched = 256;
  struct Slot {
    Call call;
    std::uint64_t number = 0;
    std::unique_ptr<Event> event;  // behind the collective on its stream
    std::atomic<bool> recorded{false};
  };
  Member(int t, Device& d) : tower(t), device(d) {}
  // Of the tower's thread. While all slots are taken, collectives go unwatched: an older one that
  // makes no progress says it as well.
  Slot* enter(const Call& call);
  // Of the watchdog's. The oldest collective that is not known to be over; null when there is none.
  Slot* oldest();

  int tower;
  Device& device;
  ncclComm* comm = nullptr;
  std::atomic<bool> inside{false};  // the tower's thread is in NCCL
  std::atomic<bool> released{false};
  std::atomic<std::uint64_t> entered{0};
  std::array<Slot, kWatched> slots;
  std::atomic<std::uint64_t> taken{0}, over{0};
};

// What the towers of a group in this process share. Whoever finds a fault calls fail(); from then
// on nobody enters NCCL and the watchdog ends what is there.
struct Shared {
  Shared(Context& context, const TransportOptions& options);
  void fail(ErrorText text) noexcept;  // the first one counts; from any thread
  bool failed() const noexcept { return state.load() == kFailed; }
  void require_healthy() const;  // throws CommError

  Host& host;
  double timeout_seconds;
  bool check_tags;
  threads::Group group, tags;  // host-side agreement: of the engine, and of check_tags
  std::vector<std::unique_ptr<Member>> members;
  static constexpr int kHealthy = 0, kFailing = 1, kFailed = 2;
  std::atomic<int> state{kHealthy};
  ErrorText failure;  // once failed
  std::atomic<bool> stop{false}, abandoned{false};
};

// A thread that fails the group when NCCL reports an error or a collective makes no progress for
// timeout_seconds, and after any fault aborts all communicators of this process, which ends the
// waits of their streams.
class Watchdog {
 public:
  explicit Watchdog(std::shared_ptr<Shared> shared);
  ~Watchdog() { end(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  void end();  // returns when a failed group has been aborted

 private:
  std::shared_ptr<Shared> shared_;
  std::uint64_t thread_;
  bool running_ = true;
};

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Shared> shared, int tower,
                                                Watchdog& watchdog);
// Ends a communicator in peace, or else aborts it; of the tower's thread, with no watchdog.
void close_communicator(Shared& shared, Member& member);

// Throws CommError unless NCCL's `result` is success, after failing the group.
void check(int result, const char* call, Shared& shared, const Member& member, const Call& what);
ErrorText failure_text(int result, const char* call, const Member& member, const Call& what);

}  // namespace belfry::nccl
