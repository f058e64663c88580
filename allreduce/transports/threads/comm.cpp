// SPDX-License-Identifier: MIT
#include <algorithm>

#include "belfry/allreduce/transports/threads/group_internal.h"

namespace belfry::threads {
namespace {

std::string text(const CommTag& t) {
  return "kind " + std::to_string(t.kind) + " bucket " + std::to_string(t.bucket) + " update " +
         std::to_string(t.update);
}

class ThreadsControl : public Control {
 public:
  ThreadsControl(Group& group, int rank) : group_(group), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_.n; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return group_.control.meet(rank_, {mine.begin(), mine.end()});
  }
  void barrier() override { group_.control.meet(rank_, {}); }
  void abort() noexcept override { group_.abort(); }

 private:
  Group& group_;
  int rank_;
};

// Collectives by shared memory. Hosts meet twice at issue, the work itself is in stream order: a
// member waits for the others' data to be ready, copies it, and lets nobody reuse what has not been
// read. Nothing blocks inside a stream.
class ThreadsCommunicator : public Communicator {
 public:
  ThreadsCommunicator(Group& group, int rank, Device& device)
      : group_(group), rank_(rank), ready_(device.event()), done_(device.event()) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_.n; }

  void exchange(Stream& s, std::span<const void* const> send,
                std::span<const std::size_t> send_bytes, std::span<void* const> recv,
                std::span<const std::size_t> recv_bytes, CommTag tag) override {
    const auto posts = enter(
        s, {tag, 0, nullptr, nullptr,
            std::make_shared<std::vector<const void*>>(send.begin(), send.end()),
            std::make_shared<std::vector<std::size_t>>(send_bytes.begin(), send_bytes.end())});
    std::vector<Move> moves;
    for (std::size_t p = 0; p < posts.size(); ++p) {
      const std::size_t sent = posts[p].send_bytes->at(me());
      if (sent != recv_bytes[p]) {
        group_.abort();
        throw CommError(ErrorText{.what = "exchange sizes differ (" + text(tag) + ", from member " +
                                          std::to_string(p) + ")",
                                  .found = std::to_string(sent) + " bytes sent",
                                  .expected = std::to_string(recv_bytes[p]),
                                  .tower = rank_});
      }
      moves.push_back({recv[p], posts[p].send->at(me()), sent, p});
    }
    copy(s, posts, moves);
    leave(s, tag, [&](std::size_t p) { return send_bytes[p] != 0; });
  }

  void all_gather(Stream& s, const void* in, void* out, std::size_t bytes, CommTag tag) override {
    const auto posts = enter(s, {tag, bytes, in});
    std::vector<Move> moves;
    for (std::size_t p = 0; p < posts.size(); ++p)
      moves.push_back({static_cast<std::byte*>(out) + p * bytes, posts[p].data, bytes, p});
    copy(s, posts, moves);
    leave(s, tag, [&](std::size_t) { return bytes != 0; });
  }

  void broadcast(Stream& s, void* data, std::size_t bytes, int root, CommTag tag) override {
    const auto posts = enter(s, {tag, bytes, data});
    const auto from = static_cast<std::size_t>(root);
    copy(s, posts, {{data, posts.at(from).data, bytes, from}});
    leave(s, tag, [&](std::size_t) { return rank_ == root && bytes != 0; });
  }

  bool healthy() const noexcept override { return !group_.comm.aborted(); }
  void require_healthy() const override {
    if (!healthy()) throw CommError(ErrorText{.what = "the group was aborted", .tower = rank_});
  }
  void abort() noexcept override { group_.abort(); }
  void close() override {}

 private:
  struct Move {
    void* to;
    const void* from;
    std::size_t bytes;
    std::size_t member;
  };
  std::size_t me() const { return static_cast<std::size_t>(rank_); }

  std::vector<CommPost> enter(Stream& s, CommPost post) {
    s.record(*ready_);
    post.event = ready_.get();
    return meet(post);
  }

  // Afterwards the stream goes on only when the members that read from this one have done so.
  template <class Reads>
  void leave(Stream& s, const CommTag& tag, Reads reads) {
    s.record(*done_);
    const auto posts = meet({tag, 0, nullptr, done_.get()});
    for (std::size_t p = 0; p < posts.size(); ++p)
      if (p != me() && reads(p)) s.wait(*posts[p].event);
  }

  void copy(Stream& s, const std::vector<CommPost>& posts, std::vector<Move> moves) {
    std::erase_if(moves, [](const Move& m) { return m.to == m.from || m.bytes == 0; });
    for (const Move& m : moves) {
      if (m.member != me()) s.wait(*posts[m.member].event);
      s.copy(m.to, m.from, m.bytes);
    }
  }

  std::vector<CommPost> meet(const CommPost& post) {
    std::vector<CommPost> posts = group_.comm.meet(rank_, post);
    for (std::size_t p = 0; p < posts.size(); ++p) {
      const CommTag &o = posts[p].tag, &tag = post.tag;
      const bool same = o.kind == tag.kind && o.bucket == tag.bucket && o.update == tag.update;
      if (!same || posts[p].bytes != post.bytes) {
        group_.abort();
        throw CommError(
            ErrorText{.what = "members issued different collectives",
                      .found = "member " + std::to_string(p) + ": " + text(o) + ", " +
                               std::to_string(posts[p].bytes) + " bytes",
                      .expected = text(tag) + ", " + std::to_string(post.bytes) + " bytes",
                      .tower = rank_});
      }
    }
    return posts;
  }

  Group& group_;
  int rank_;
  std::unique_ptr<Event> ready_, done_;
};

}  // namespace

std::unique_ptr<Control> make_control(Group& group, int rank) {
  return std::make_unique<ThreadsControl>(group, rank);
}
std::unique_ptr<Communicator> make_communicator(Group& group, int rank, Device& device) {
  return std::make_unique<ThreadsCommunicator>(group, rank, device);
}

}  // namespace belfry::threads
