// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "belfry/device/types.h"

namespace belfry {

// A point in a stream. Owned by whoever made it. `external` events stay visible outside a graph
// that records or awaits them (cudaEventRecordExternal), so communication overlaps captured steps.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool external() const noexcept = 0;
  virtual bool done() const = 0;       // false when never recorded
  virtual void wait_host() const = 0;  // throws DeviceError when never recorded
};

// A recorded sequence of stream operations; replayed on the stream that recorded it.
class Graph {
 public:
  virtual ~Graph() = default;
};

// A host callable by reference: executors that run later clone it into their queue.
struct Task {
  void* object;
  void (*invoke)(void*);
  std::shared_ptr<void> (*clone)(const void*);
};

// One kernel launch: `functor` over indices [0, n). `host` is its CPU body; other backends find
// theirs by `name`.
struct KernelCall {
  const char* name;
  const void* functor;
  std::size_t functor_bytes;  // functors are trivially copyable
  std::size_t n;
  bool rows;  // a row functor over teams, else an element functor
  void (*host)(const void* functor, std::size_t begin, std::size_t end);
  void (*touches)(const void* functor, std::size_t n, Touches&);
};

// An in-order queue of one device. One host thread at a time. Work is asynchronous: memory given
// to it must live until it has run, and failures may surface at a later call or synchronize().
class Stream {
 public:
  virtual ~Stream() = default;
  virtual DeviceId device() const noexcept = 0;
  virtual void* native() const noexcept = 0;  // cudaStream_t, or the executor's queue
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;  // throws DeviceError when never recorded
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void fill(void* dst, int byte, std::size_t bytes) = 0;
  virtual void launch(const KernelCall& call) = 0;
  virtual void synchronize() = 0;
  // The host is about to read or write these ranges itself; nothing queued may use them.
  virtual void host_access(const Touches& touches) = 0;
  virtual bool capturing() const noexcept = 0;  // nothing runs, until end_capture()
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Graph> end_capture() = 0;
  virtual void replay(Graph& graph) = 0;

  // Copies to host memory and waits until it is there. DeviceError while the stream captures.
  void fetch(void* host, const void* src, std::size_t bytes) {
    require_running("a tensor is read");
    copy(host, src, bytes);
    synchronize();
    host_access(Touches().reads(host, bytes));
  }

  // Library calls and host functions; fn must not use the stream it runs on.
  template <class F>
  void run(const Touches& touches, F fn) {
    submit(touches, {&fn, [](void* f) { (*static_cast<F*>(f))(); },
                     [](const void* f) {
                       return std::shared_ptr<void>(std::make_shared<F>(*static_cast<const F*>(f)));
                     }});
  }

 protected:
  virtual void submit(const Touches& touches, Task task) = 0;
  void require_running(const char* what) const;  // DeviceError while the stream captures
};

// When an exception leaves its scope, waits for what was put on the stream: host memory that lives
// there may still be in use.
class Settled {
 public:
  explicit Settled(Stream& stream) : stream_(stream) {}
  ~Settled() {
    if (std::uncaught_exceptions() == before_) return;
    try {
      stream_.synchronize();
    } catch (...) {  // the exception under way says more
    }
  }
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;

 private:
  Stream& stream_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace belfry
