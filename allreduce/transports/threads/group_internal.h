// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "belfry/allreduce/mover.h"
#include "belfry/core/error.h"

namespace belfry::threads {

// A meeting point of n threads: everybody posts, nobody goes on before all have. Two rounds of
// posts are kept apart by parity, so one wait a round is enough.
template <class Post>
class Meeting {
 public:
  Meeting(Host& host, int n) : host_(host), n_(n) {
    for (auto& side : posts_) side.resize(static_cast<std::size_t>(n));
    rounds_.resize(static_cast<std::size_t>(n), 0);
  }
  // All posts of this round; valid until the member's next call.
  const std::vector<Post>& meet(int rank, Post post) {
    const std::uint64_t round = rounds_[static_cast<std::size_t>(rank)]++;
    auto& side = posts_[round % 2];
    side[static_cast<std::size_t>(rank)] = std::move(post);
    host_.publish(this, round);
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    host_.notify();
    const std::uint64_t want = (round + 1) * static_cast<std::uint64_t>(n_);
    host_.wait([&] {
      return aborted_.load(std::memory_order_acquire) ||
             arrived_.load(std::memory_order_acquire) >= want;
    });
    if (aborted() || arrived_.load(std::memory_order_acquire) < want)
      throw CommError(ErrorText{.what = "the group was aborted",
                                .fix = "destroy it; the first error says why",
                                .tower = rank});
    host_.observe(this, round);
    return side;
  }
  void abort() noexcept {
    aborted_.store(true, std::memory_order_release);
    host_.notify();
  }
  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }

 private:
  Host& host_;
  int n_;
  std::array<std::vector<Post>, 2> posts_;
  std::vector<std::uint64_t> rounds_;
  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<bool> aborted_{false};
};

// What a member brings to a collective. Pointers are to its own things, which it keeps alive until
// it has left the collective; `event` is recorded on its stream.
struct CommPost {
  CommTag tag;
  std::size_t bytes = 0;
  const void* data = nullptr;
  const Event* event = nullptr;
  // exchange: one a member; owned, for a member may leave an aborted meeting while others read it
  std::shared_ptr<const std::vector<const void*>> send{};
  std::shared_ptr<const std::vector<std::size_t>> send_bytes{};
};

struct Group {
  Group(Host& h, int towers) : host(h), n(towers), control(h, towers), comm(h, towers) {}
  void abort() noexcept {
    control.abort();
    comm.abort();
  }
  Host& host;
  int n;
  Meeting<std::vector<std::byte>> control;
  Meeting<CommPost> comm;
};

std::unique_ptr<Control> make_control(Group& group, int rank);
std::unique_ptr<Communicator> make_communicator(Group& group, int rank, Device& device);

// Parameters, mean and state of a whole group in one copy; blocks are claimed, nobody owns any.
class SharedArrays;
std::shared_ptr<SharedArrays> make_shared_arrays(const FlatPlan& plan, Device& device, Host& host,
                                                 double delay_seconds);
std::unique_ptr<Mover> make_shared_mover(std::shared_ptr<SharedArrays> arrays, Group& group,
                                         int rank, Device& device);

}  // namespace belfry::threads
