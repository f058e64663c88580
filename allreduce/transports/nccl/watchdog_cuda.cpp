// SPDX-License-Identifier: MIT
#include <nccl.h>

#include <algorithm>
#include <cmath>

#include "belfry/allreduce/transports/nccl/nccl_internal.h"

namespace belfry::nccl {
namespace {

// A tower's thread leaves NCCL at once, unless it waits there for a peer to connect: then only the
// abort itself ends its wait.
constexpr double kGraceSeconds = 1;
// ncclCommAbort may wait for a stream for ever.
constexpr double kAbortSeconds = 30;

// How often the same collective has been found to be the oldest one.
struct Age {
  std::uint64_t number = 0;
  int looks = 0;
};

std::string not_arrived(const Shared& shared, std::uint64_t number) {
  std::string out;
  for (const auto& m : shared.members)
    if (const std::uint64_t at = m->entered.load(std::memory_order_acquire); at < number)
      out += (out.empty() ? "" : ", ") + std::string("tower ") + std::to_string(m->tower) + " (" +
             std::to_string(number - at) + " behind)";
  return out;
}

ErrorText stuck_text(const Shared& shared, const Member& member, const Member::Slot& slot) {
  const std::string missing = not_arrived(shared, slot.number);
  return {.what = slot.call.text() + " made no progress for " +
                  std::to_string(std::lround(shared.timeout_seconds)) + " s on tower " +
                  std::to_string(member.tower),
          .found = missing.empty() ? "all towers of this process in it" : "not arrived: " + missing,
          .expected = "every tower in it",
          .fix = missing.empty() ? "a device or a link between devices hangs: see dmesg"
                                 : "find out what those towers wait for, or raise timeout_seconds",
          .tower = member.tower,
          .update = slot.call.tag.update};
}

// One look at every member; fails the group when something is wrong.
void look(Shared& shared, std::vector<Age>& ages, int patience) {
  for (std::size_t k = 0; k < ages.size(); ++k) {
    Member& m = *shared.members[k];
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(m.comm, &state);
    if (result == ncclSuccess && state != ncclInProgress) result = state;
    Member::Slot* slot = m.oldest();
    const Call call = slot == nullptr ? Call{} : slot->call;
    if (result != ncclSuccess)
      return shared.fail(failure_text(result, "ncclCommGetAsyncError", m, call));
    const std::uint64_t number = slot == nullptr ? 0 : slot->number;
    if (number == 0 || number != ages[k].number)
      ages[k] = {number, 0};
    else if (++ages[k].looks >= patience)
      return shared.fail(stuck_text(shared, m, *slot));
  }
}

// What a thread that aborts needs: it may go on alone.
struct Ending {
  std::shared_ptr<Shared> shared;
  Member* member;
};

void abort_one(void* arg) {
  const std::unique_ptr<Ending> e(static_cast<Ending*>(arg));
  Member& m = *e->member;
  e->shared->host.wait_for([&m] { return !m.inside.load(); }, kGraceSeconds);
  ncclCommAbort(m.comm);
  m.released.store(true);
  if (!e->shared->abandoned.load()) e->shared->host.notify();
}

void abort_all(const std::shared_ptr<Shared>& shared) {
  std::vector<std::pair<Member*, std::uint64_t>> threads;
  for (const auto& m : shared->members)
    threads.emplace_back(m.get(), shared->host.spawn(abort_one, new Ending{shared, m.get()}));
  auto over = [&] {
    return std::all_of(threads.begin(), threads.end(),
                       [](const auto& t) { return t.first->released.load(); });
  };
  shared->abandoned.store(!shared->host.wait_for(over, kAbortSeconds));
  for (const auto& [member, thread] : threads)
    if (member->released.load())
      shared->host.join(thread);
    else
      shared->host.abandon(thread);
}

void watch(void* arg) {
  const std::unique_ptr<std::shared_ptr<Shared>> mine(static_cast<std::shared_ptr<Shared>*>(arg));
  Shared& shared = **mine;
  const double interval = std::clamp(shared.timeout_seconds / 20, 1e-3, 0.1);
  const int patience = static_cast<int>(std::ceil(shared.timeout_seconds / interval));
  std::vector<Age> ages(shared.members.size());
  auto called = [&shared] { return shared.stop.load() || shared.failed(); };
  while (!shared.host.wait_for(called, interval)) {
    try {
      look(shared, ages, patience);
    } catch (const Error& e) {  // a device that has failed says so when asked about an event
      shared.fail(e.text());
    }
  }
  if (shared.failed()) abort_all(*mine);
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      thread_(shared_->host.spawn(watch, new std::shared_ptr<Shared>(shared_))) {}

void Watchdog::end() {
  if (!std::exchange(running_, false)) return;
  shared_->stop.store(true);
  shared_->host.notify();
  shared_->host.join(thread_);
}

}  // namespace belfry::nccl
