// SPDX-License-Identifier: MIT
#include <nccl.h>

#include <utility>

#include "belfry/allreduce/transports/nccl/nccl_internal.h"

namespace belfry::nccl {
namespace {

const char* fix_of(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return "look at the errors of the other towers: one of them has ended";
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return "one GPU a tower, the same collectives in the same order; set check_tags to find "
             "where "
             "they differ";
    default:
      return "run again with NCCL_DEBUG=WARN and look at the lines before the error";
  }
}

}  // namespace

std::string Call::text() const {
  std::string out = std::string(what) + " (kind " + std::to_string(tag.kind);
  if (tag.bucket >= 0) out += ", bucket " + std::to_string(tag.bucket);
  return out + ", update " + std::to_string(tag.update) + ")";
}

Member::Slot* Member::enter(const Call& call) {
  const std::uint64_t number = entered.load(std::memory_order_relaxed) + 1;
  const std::uint64_t k = taken.load(std::memory_order_relaxed);
  Slot* slot = nullptr;
  if (k - over.load(std::memory_order_acquire) < kWatched) {
    slot = &slots[k % kWatched];
    slot->call = call;
    slot->number = number;
    slot->recorded.store(false, std::memory_order_relaxed);
    taken.store(k + 1, std::memory_order_release);
  }
  entered.store(number, std::memory_order_release);
  return slot;
}

Member::Slot* Member::oldest() {
  for (;;) {
    const std::uint64_t k = over.load(std::memory_order_relaxed);
    if (k == taken.load(std::memory_order_acquire)) return nullptr;
    Slot& slot = slots[k % kWatched];
    if (!slot.recorded.load(std::memory_order_acquire) || !slot.event->done()) return &slot;
    over.store(k + 1, std::memory_order_release);
  }
}

Shared::Shared(Context& context, const TransportOptions& options)
    : host(context.host()),
      timeout_seconds(options.timeout_seconds),
      check_tags(options.check_tags),
      group(context.host(), context.towers()),
      tags(context.host(), context.towers()) {
  for (int t = 0; t < context.towers(); ++t)
    members.push_back(std::make_unique<Member>(t, context.device(t)));
}

void Shared::fail(ErrorText text) noexcept {
  int expected = kHealthy;
  if (!state.compare_exchange_strong(expected, kFailing)) return;
  failure = std::move(text);
  state.store(kFailed);
  group.abort();
  tags.abort();  // both notify
}

void Shared::require_healthy() const {
  if (failed()) throw CommError(failure);
}

ErrorText failure_text(int result, const char* call, const Member& member, const Call& what) {
  const auto code = static_cast<ncclResult_t>(result);
  ErrorText text{.what = std::string(call) + " failed"};
  if (*what.what != '\0') text.what += " in " + what.text();
  text.what += " on " + name_of(member.device.id());
  text.found = ncclGetErrorString(code);
  const char* last = ncclGetLastError(member.comm);
  if (last != nullptr && *last != '\0') text.found += std::string(": ") + last;
  text.fix = fix_of(code);
  text.tower = member.tower;
  if (*what.what != '\0') text.update = what.tag.update;
  return text;
}

void check(int result, const char* call, Shared& shared, const Member& member, const Call& what) {
  if (result == ncclSuccess) return;
  const ErrorText text = failure_text(result, call, member, what);
  shared.fail(text);
  throw CommError(text);
}

}  // namespace belfry::nccl
