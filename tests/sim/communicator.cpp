// SPDX-License-Identifier: MIT
#include "belfry/tests/sim/communicator.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "belfry/allreduce/transports/threads/group_internal.h"
#include "belfry/core/error.h"

namespace belfry::sim {
namespace {

// One member's part of a collective; unused fields are empty.
struct Post {
  const void* in = nullptr;
  void* out = nullptr;
  std::vector<const void*> send;
  std::vector<void*> recv;
  std::vector<std::size_t> send_bytes, recv_bytes;
};

struct Collective : Rendezvous {
  std::string signature;
  std::vector<Post> posts;
  std::vector<char> posted;
};

struct Clique {
  Clique(Scheduler& s, int size) : scheduler(s), n(static_cast<std::size_t>(size)), next(n, 0) {}
  void abort() {
    if (std::exchange(aborted, true)) return;
    const auto error = std::make_exception_ptr(CommError("the group was aborted"));
    for (auto& [number, c] : open) scheduler.abort(*c, error);
    open.clear();
  }
  Scheduler& scheduler;
  std::size_t n;
  std::vector<std::uint64_t> next;  // number of the next collective, by member
  std::map<std::uint64_t, std::shared_ptr<Collective>> open;
  bool aborted = false;
};

class SimCommunicator : public Communicator {
 public:
  SimCommunicator(std::shared_ptr<Clique> clique, int rank)
      : clique_(std::move(clique)), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(clique_->n); }

  void exchange(Stream& s, std::span<const void* const> send,
                std::span<const std::size_t> send_bytes, std::span<void* const> recv,
                std::span<const std::size_t> recv_bytes, CommTag tag) override {
    Post post;
    post.send.assign(send.begin(), send.end());
    post.send_bytes.assign(send_bytes.begin(), send_bytes.end());
    post.recv.assign(recv.begin(), recv.end());
    post.recv_bytes.assign(recv_bytes.begin(), recv_bytes.end());
    Touches t;
    std::size_t bytes = 0;
    for (std::size_t p = 0; p < send.size(); ++p) {
      t.reads(send[p], send_bytes[p]).writes(recv[p], recv_bytes[p]);
      bytes += send_bytes[p];
    }
    issue(s, "exchange", 0, tag, std::move(post), t, bytes, [](Collective& c) {
      for (std::size_t to = 0; to < c.posts.size(); ++to)
        for (std::size_t from = 0; from < c.posts.size(); ++from)
          if (c.posts[to].recv_bytes[from] != 0 && c.posts[to].recv[from] != c.posts[from].send[to])
            std::memcpy(c.posts[to].recv[from], c.posts[from].send[to],
                        c.posts[to].recv_bytes[from]);
    });
  }

  void all_gather(Stream& s, const void* in, void* out, std::size_t bytes, CommTag tag) override {
    Touches t;
    t.reads(in, bytes).writes(out, bytes * clique_->n);
    issue(s, "all_gather", bytes, tag, post(in, out), t, bytes * clique_->n,
          [bytes](Collective& c) {
            for (const Post& to : c.posts)
              for (std::size_t p = 0; p < c.posts.size(); ++p)
                std::memmove(static_cast<std::byte*>(to.out) + p * bytes, c.posts[p].in, bytes);
          });
  }

  void broadcast(Stream& s, void* data, std::size_t bytes, int root, CommTag tag) override {
    Touches t;
    if (rank_ == root)
      t.reads(data, bytes);
    else
      t.writes(data, bytes);
    issue(s, "broadcast", bytes, tag, post(data, data), t, bytes, [bytes, root](Collective& c) {
      for (const Post& to : c.posts)
        std::memmove(to.out, c.posts[static_cast<std::size_t>(root)].in, bytes);
    });
  }

  bool healthy() const noexcept override { return !clique_->aborted; }
  void require_healthy() const override {
    if (clique_->aborted) throw CommError("the group was aborted");
  }
  void abort() noexcept override { clique_->abort(); }
  void close() override {}

 private:
  static Post post(const void* in, void* out) {
    Post p;
    p.in = in;
    p.out = out;
    return p;
  }

  template <class Run>
  void issue(Stream& s, const std::string& kind, std::size_t bytes, CommTag tag, Post mine,
             const Touches& touches, std::size_t moved, Run run) {
    Scheduler& scheduler = clique_->scheduler;
    const std::string text = kind + " " + std::to_string(tag.kind) + " bucket " +
                             std::to_string(tag.bucket) + " update " + std::to_string(tag.update);
    scheduler.call(text);
    if (clique_->aborted) throw CommError("the group was aborted");
    const auto me = static_cast<std::size_t>(rank_);
    const std::uint64_t number = clique_->next[me]++;
    std::shared_ptr<Collective>& entry = clique_->open[number];
    const std::string signature = text + ", " + std::to_string(bytes) + " bytes";
    if (!entry) entry = std::make_shared<Collective>();
    const std::shared_ptr<Collective> c = entry;
    if (c->posts.empty()) {
      c->members = clique_->n;
      c->signature = signature;
      c->posts.resize(clique_->n);
      c->posted.resize(clique_->n, 0);
      c->seconds = 10e-6 + static_cast<double>(moved) / 4e11;
    }
    const std::string fault = mismatch(*c, signature, mine);
    if (!fault.empty()) {
      clique_->abort();
      throw CommError(ErrorText{.what = "members issued different collectives",
                                .found = signature + fault,
                                .expected = c->signature,
                                .tower = rank_});
    }
    c->posts[me] = std::move(mine);
    c->posted[me] = 1;
    Operation op;
    op.kind = Operation::Kind::collective;
    op.what = scheduler.name(text + " of member " + std::to_string(rank_));
    op.touches = ranges_of(touches);
    op.rendezvous = c;
    const bool all = std::find(c->posted.begin(), c->posted.end(), 0) == c->posted.end();
    if (all) {
      c->run = [raw = c.get(), run] { run(*raw); };
      clique_->open.erase(number);
    }
    auto& stream = dynamic_cast<SimStream&>(s);
    stream.submitted(SeparateMemory::Kind::kernel, op.touches, text);
    scheduler.submit(stream.queue(), std::move(op));
  }

  std::string mismatch(const Collective& c, const std::string& signature, const Post& mine) const {
    const auto me = static_cast<std::size_t>(rank_);
    if (signature != c.signature) return ", not " + c.signature;
    for (std::size_t p = 0; p < c.posts.size() && !mine.send.empty(); ++p)
      if (c.posted[p] != 0 && (c.posts[p].recv_bytes[me] != mine.send_bytes[p] ||
                               c.posts[p].send_bytes[me] != mine.recv_bytes[p]))
        return ", sizes differ from member " + std::to_string(p);
    return {};
  }

  std::shared_ptr<Clique> clique_;
  int rank_;
};

// Towers as on GPUs: a copy of the variables each, collectives asynchronous; Control by threads.
class SimTransport : public Transport {
 public:
  SimTransport(Scheduler& scheduler, Context& context, const TransportOptions& options)
      : context_(context),
        options_(options),
        group_(context.host(), context.towers()),
        clique_(std::make_shared<Clique>(scheduler, context.towers())) {
    for (int t = 0; t < context.towers(); ++t) {
      controls_.push_back(std::make_unique<AbortsBoth>(group_, *clique_, t));
      comms_.push_back(std::make_unique<SimCommunicator>(clique_, t));
    }
  }
  Control& control(int tower) override { return *controls_.at(static_cast<std::size_t>(tower)); }
  Communicator& communicator(int tower) override {
    return *comms_.at(static_cast<std::size_t>(tower));
  }
  std::unique_ptr<Mover> mover(int tower, const FlatPlan& plan) override {
    return make_sliced_mover(plan, context_.device(tower), communicator(tower), control(tower),
                             options_.delay_seconds);
  }
  std::string describe() const override { return "averaging: simulated collectives"; }

 private:
  class AbortsBoth : public Control {
   public:
    AbortsBoth(threads::Group& group, Clique& clique, int rank)
        : clique_(clique), control_(threads::make_control(group, rank)) {}
    int rank() const noexcept override { return control_->rank(); }
    int size() const noexcept override { return control_->size(); }
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
      return control_->all_gather(mine);
    }
    void barrier() override { control_->barrier(); }
    void abort() noexcept override {
      control_->abort();
      clique_.abort();
    }

   private:
    Clique& clique_;
    std::unique_ptr<Control> control_;
  };
  Context& context_;
  TransportOptions options_;
  threads::Group group_;
  std::shared_ptr<Clique> clique_;
  std::vector<std::unique_ptr<Control>> controls_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

}  // namespace

std::function<std::unique_ptr<Transport>(Context&, const TransportOptions&)> sim_transport(
    Scheduler& scheduler) {
  return [&scheduler](Context& context, const TransportOptions& options) {
    return std::make_unique<SimTransport>(scheduler, context, options);
  };
}

}  // namespace belfry::sim
