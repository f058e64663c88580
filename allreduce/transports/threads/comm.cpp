// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

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

// Collectives by shared memory: post, read the others' memory, meet again before anyone reuses his.
class ThreadsCommunicator : public Communicator {
 public:
  ThreadsCommunicator(Group& group, int rank) : group_(group), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_.n; }

  void exchange(Stream& s, std::span<const void* const> send,
                std::span<const std::size_t> send_bytes, std::span<void* const> recv,
                std::span<const std::size_t> recv_bytes, CommTag tag) override {
    Touches t;
    for (std::size_t p = 0; p < send.size(); ++p)
      t.reads(send[p], send_bytes[p]).writes(recv[p], recv_bytes[p]);
    s.run(t, [this, tag, out = std::make_shared<std::vector<const void*>>(send.begin(), send.end()),
              out_bytes =
                  std::make_shared<std::vector<std::size_t>>(send_bytes.begin(), send_bytes.end()),
              in = std::vector<void*>(recv.begin(), recv.end()),
              in_bytes = std::vector<std::size_t>(recv_bytes.begin(), recv_bytes.end())] {
      const auto posts = meet({tag, 0, nullptr, out, out_bytes}, tag);
      const auto me = static_cast<std::size_t>(rank_);
      for (std::size_t p = 0; p < posts.size(); ++p) {
        const std::size_t sent = posts[p].send_bytes->at(me);
        if (sent != in_bytes[p]) {
          group_.abort();
          throw CommError(ErrorText{.what = "exchange sizes differ (" + text(tag) +
                                            ", from member " + std::to_string(p) + ")",
                                    .found = std::to_string(sent) + " bytes sent",
                                    .expected = std::to_string(in_bytes[p]),
                                    .tower = rank_});
        }
        const void* from = posts[p].send->at(me);
        if (in[p] != from && sent != 0) std::memcpy(in[p], from, sent);
      }
      leave(tag);
    });
  }

  void all_gather(Stream& s, const void* in, void* out, std::size_t bytes, CommTag tag) override {
    Touches t;
    t.reads(in, bytes).writes(out, bytes * static_cast<std::size_t>(group_.n));
    s.run(t, [=, this] {
      const auto posts = meet({tag, bytes, in}, tag);
      for (std::size_t p = 0; p < posts.size(); ++p) {
        auto* to = static_cast<std::byte*>(out) + p * bytes;
        if (to != posts[p].data) std::memcpy(to, posts[p].data, bytes);
      }
      leave(tag);
    });
  }

  void all_reduce(Stream& s, const float* in, float* out, std::size_t n, Reduce op,
                  CommTag tag) override {
    Touches t;
    t.reads(in, n * sizeof(float)).writes(out, n * sizeof(float));
    s.run(t, [=, this] {
      const auto posts = meet({tag, n * sizeof(float), in}, tag);
      std::vector<float> acc(n);
      for (std::size_t p = 0; p < posts.size(); ++p) {
        const auto* x = static_cast<const float*>(posts[p].data);
        for (std::size_t i = 0; i < n; ++i)
          acc[i] = p == 0 ? x[i] : (op == Reduce::sum ? acc[i] + x[i] : std::max(acc[i], x[i]));
      }
      leave(tag);  // everybody has read before anyone writes: `in` may be `out`
      std::copy(acc.begin(), acc.end(), out);
    });
  }

  void broadcast(Stream& s, void* data, std::size_t bytes, int root, CommTag tag) override {
    Touches t;
    if (rank_ == root)
      t.reads(data, bytes);
    else
      t.writes(data, bytes);
    s.run(t, [=, this] {
      const auto posts = meet({tag, bytes, data}, tag);
      if (rank_ != root) std::memcpy(data, posts.at(static_cast<std::size_t>(root)).data, bytes);
      leave(tag);
    });
  }

  bool healthy() const noexcept override { return !group_.comm.aborted(); }
  void abort() noexcept override { group_.abort(); }
  void close() override {}

 private:
  std::vector<CommPost> meet(CommPost post, const CommTag& tag) {
    std::vector<CommPost> posts = group_.comm.meet(rank_, post);
    for (std::size_t p = 0; p < posts.size(); ++p) {
      const CommTag& o = posts[p].tag;
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
  void leave(const CommTag& tag) { meet({tag}, tag); }

  Group& group_;
  int rank_;
};

}  // namespace

std::unique_ptr<Control> make_control(Group& group, int rank) {
  return std::make_unique<ThreadsControl>(group, rank);
}
std::unique_ptr<Communicator> make_communicator(Group& group, int rank) {
  return std::make_unique<ThreadsCommunicator>(group, rank);
}

}  // namespace belfry::threads
