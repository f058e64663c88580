// SPDX-License-Identifier: MIT
#include "belfry/device/loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "belfry/core/error.h"
#include "belfry/device/kept_arena.h"
#include "belfry/device/loop_internal.h"
#include "belfry/device/use_stream.h"

namespace belfry {
namespace {

// More streams than this gain nothing on a GPU.
constexpr int kMostStreams = 16;

[[noreturn]] void throw_inside(const char* what) {
  throw DeviceError(ErrorText{.what = std::string(what) + " in an iteration of a loop",
                              .found = "iterations are recorded before any of them runs",
                              .fix = "do it before or after the loop"});
}

// The main stream while a body is called: keeps what is put on it.
class LoopRecorder : public Stream {
 public:
  LoopRecorder(Stream& main, LoopProgram& program, std::vector<LoopAccess>& accesses,
               const std::vector<std::shared_ptr<LaneArena>>& arenas)
      : main_(main), program_(program), accesses_(accesses), arenas_(arenas) {}
  void set_iteration(std::int64_t iteration, std::size_t lane) {
    iteration_ = iteration;
    lane_ = lane;
    arenas_[lane]->set_iteration(iteration);
  }

  DeviceId device() const noexcept override { return main_.device(); }
  void* native() const noexcept override { return nullptr; }
  void record(Event&) override { throw_inside("an event is recorded"); }
  void wait(const Event&) override { throw_inside("a wait for an event"); }
  void copy(void* dst, const void* src, std::size_t bytes) override {
    if (bytes == 0) return;
    add(Touches().reads(src, bytes).writes(dst, bytes), {iteration_, LoopCopy{dst, src, bytes}});
  }
  void fill(void* dst, int byte, std::size_t bytes) override {
    if (bytes == 0) return;
    add(Touches().writes(dst, bytes), {iteration_, LoopFill{dst, byte, bytes}});
  }
  void launch(const KernelCall& call) override {
    KernelCall mine = call;
    void* functor = program_.functors.allocate(call.functor_bytes);
    std::memcpy(functor, call.functor, call.functor_bytes);
    mine.functor = functor;
    Touches touches;
    call.touches(call.functor, call.n, touches);
    add(touches, {iteration_, mine});
  }
  void synchronize() override { throw_inside("a wait for the device"); }
  void host_access(const Touches& touches) override { main_.host_access(touches); }
  bool capturing() const noexcept override { return true; }
  void begin_capture() override { throw_inside("a recording begins"); }
  std::unique_ptr<Graph> end_capture() override { throw_inside("a recording ends"); }
  void replay(Graph&) override { throw_inside("a replay"); }

 protected:
  void submit(const Touches& touches, Task task) override {
    add(touches, {iteration_, std::make_unique<LoopTask>(
                                  LoopTask{task.clone(task.object), task.invoke, touches})});
  }

 private:
  void add(const Touches& touches, LoopOp op) {
    const char* what = name_of(op);
    for (const Touch& t : touches) {
      if (t.bytes == 0) continue;
      const auto lo = reinterpret_cast<std::uintptr_t>(t.data);
      const LoopAccess access{lo, lo + t.bytes, iteration_, what, t.write};
      if (!own(access)) accesses_.push_back(access);
    }
    program_.lanes[lane_].push_back(std::move(op));
    ++program_.operations;
  }
  // In memory that this iteration has made; throws for that of another one.
  bool own(const LoopAccess& access) const {
    if (program_.carried) return false;
    for (const auto& arena : arenas_) {
      const std::int64_t owner = arena->owner(access.lo);
      if (owner == access.iteration) return true;
      if (owner >= 0) throw_dependent(access, owner);
    }
    return false;
  }

  Stream& main_;
  LoopProgram& program_;
  std::vector<LoopAccess>& accesses_;
  const std::vector<std::shared_ptr<LaneArena>>& arenas_;
  std::int64_t iteration_ = 0;
  std::size_t lane_ = 0;
};

void check(std::int64_t n, const LoopOptions& options, const LoopBody& body) {
  if (n < 0)
    throw ConfigError(ErrorText{
        .what = "iterations of a loop", .found = std::to_string(n), .expected = "0 or more"});
  if (options.parallel_iterations < 1)
    throw ConfigError(
        ErrorText{.what = "parallel_iterations",
                  .found = std::to_string(options.parallel_iterations),
                  .expected = "at least 1",
                  .fix = "1 runs one iteration at a time, carried = true those that depend on "
                         "each other"});
  if (!body)
    throw ConfigError(ErrorText{.what = "the body of a loop", .found = "an empty function"});
}

std::size_t lanes_for(const Device& device, const Stream& main, std::int64_t n,
                      const LoopOptions& options) {
  if (options.carried) return 1;
  const int most = runs_at_submission(main) ? std::min(device.threads(), kMostLanes) : kMostStreams;
  const std::int64_t lanes = std::min<std::int64_t>({n, most, options.parallel_iterations});
  return static_cast<std::size_t>(std::max<std::int64_t>(lanes, 1));
}

void issue(Stream& stream, const LoopOp& op, const std::shared_ptr<LoopProgram>& program) {
  if (const auto* call = std::get_if<KernelCall>(&op.work)) {
    stream.launch(*call);
  } else if (const auto* copy = std::get_if<LoopCopy>(&op.work)) {
    stream.copy(copy->dst, copy->src, copy->bytes);
  } else if (const auto* fill = std::get_if<LoopFill>(&op.work)) {
    stream.fill(fill->dst, fill->byte, fill->bytes);
  } else {
    const LoopTask& task = *std::get<std::unique_ptr<LoopTask>>(op.work);
    stream.run(task.touches, [program, &op, &task] {  // the program keeps both
      try {
        task.invoke(task.object.get());
      } catch (...) {
        rethrow_of(*program, op.iteration, std::current_exception());
      }
    });
  }
}

}  // namespace

const char* name_of(const LoopOp& op) noexcept {
  if (const auto* call = std::get_if<KernelCall>(&op.work)) return call->name;
  return std::holds_alternative<LoopCopy>(op.work)   ? "copy"
         : std::holds_alternative<LoopFill>(op.work) ? "fill"
                                                     : "host call";
}

LaneArena::LaneArena(std::shared_ptr<Arena> outer, Arena& own)
    : outer_(std::move(outer)), from_(make_kept_arena(outer_ ? *outer_ : own)) {}

void* LaneArena::take(std::size_t bytes) {
  void* p = from_->take(bytes);
  const auto lo = reinterpret_cast<std::uintptr_t>(p);
  blocks_[lo] = {lo + std::max<std::size_t>(bytes, 1), iteration_};
  return p;
}

std::int64_t LaneArena::owner(std::uintptr_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return -1;
  const Block& block = std::prev(next)->second;
  return address < block.end ? block.iteration : -1;
}

struct Loop::Impl {
  Device& device;
  Stream& main;
  std::shared_ptr<LoopProgram> program = std::make_shared<LoopProgram>();
  std::vector<std::shared_ptr<LaneArena>> arenas;
  // Of all lanes but the first, which is the main stream.
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> ends;
  std::unique_ptr<Event> begin;
  std::unique_ptr<Graph> graph;
  std::uint64_t runs = 0;
  bool in_pass = false;  // recorded while a pass was open, whose ops its own are

  explicit Impl(Device& d) : device(d), main(d.main()) {}

  void record(std::int64_t n, const LoopBody& body);
  void require_unused() const;
  bool on_streams() const;
  void run_on_streams();
  void run_graph();
  bool gpu() const { return device.id().backend == Backend::cuda; }
};

void Loop::Impl::record(std::int64_t n, const LoopBody& body) {
  std::vector<LoopAccess> accesses;
  LoopRecorder recorder(main, *program, accesses, arenas);
  const UseStream use(device, recorder, true);
  if (&device.main() != &recorder) throw DeviceError("this device does not record loops");
  for (std::int64_t i = 0; i < n; ++i) {
    const std::size_t lane = static_cast<std::size_t>(i) % arenas.size();
    const UseArena memory(device, arenas[lane]);
    recorder.set_iteration(i, lane);
    try {
      body(i);
    } catch (...) {
      rethrow_of(*program, i, std::current_exception());
    }
  }
  if (!program->carried) require_independent(accesses);
  program->touches = touches_of(accesses);
  in_pass = pass_watch().open != nullptr && pass_watch().open();
}

// A run does not ask the tape as its ops did when they were recorded.
void Loop::Impl::require_unused() const {
  if (pass_watch().user_of == nullptr || (in_pass && runs == 0)) return;
  for (const Touch& t : program->touches) {
    if (!t.write) continue;
    const char* const user = pass_watch().user_of(t.data, t.bytes);
    if (user == nullptr) continue;
    throw DeviceError(
        ErrorText{.what = "a run of " + title(*program) + " writes what a backward pass may need",
                  .found = std::to_string(t.bytes) + " bytes that hold memory of '" + user +
                           "', recorded in a pass without its backward yet",
                  .expected = "memory that no open pass uses",
                  .fix = "run it before the pass or after its backward, or let it write a copy"});
  }
}

// Elsewhere the whole loop is one operation of the main stream. CPU streams do not join a capture.
bool Loop::Impl::on_streams() const {
  return gpu() || (!runs_at_submission(main) && !main.capturing());
}

void Loop::Impl::run_on_streams() {
  const std::size_t lanes = program->lanes.size();
  while (streams.size() + 1 < lanes) {
    streams.push_back(device.stream());
    ends.push_back(device.event());
  }
  if (!begin && lanes > 1) begin = device.event();
  if (lanes > 1) main.record(*begin);
  for (const auto& stream : streams) stream->wait(*begin);
  std::size_t longest = 0;
  for (const auto& lane : program->lanes) longest = std::max(longest, lane.size());
  for (std::size_t k = 0; k < longest; ++k)
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (k >= program->lanes[lane].size()) continue;
      Stream& stream = lane == 0 ? main : *streams[lane - 1];
      const UseStream use(device, stream);  // library calls take scratch memory in its order
      const UseArena memory(device, arenas[lane]);
      issue(stream, program->lanes[lane][k], program);
    }
  for (std::size_t k = 0; k < streams.size(); ++k) {
    streams[k]->record(*ends[k]);
    main.wait(*ends[k]);
  }
}

// The first run loads kernels and takes the memory of library calls.
void Loop::Impl::run_graph() {
  if (!graph) {
    main.begin_capture();
    try {
      run_on_streams();
    } catch (...) {
      try {
        main.end_capture();
      } catch (...) {  // broken by what was thrown
      }
      throw;
    }
    graph = main.end_capture();
  }
  main.replay(*graph);
}

Loop::Loop(Device& device, std::int64_t n, const LoopOptions& options, const LoopBody& body) {
  check(n, options, body);
  if (stream_in_use(device) != nullptr) throw_inside("a loop");
  impl_ = std::make_unique<Impl>(device);
  const std::size_t lanes = lanes_for(device, impl_->main, n, options);
  impl_->program->carried = options.carried;
  impl_->program->name = options.name;
  impl_->program->iterations = n;
  impl_->program->lanes.resize(lanes);
  for (std::size_t k = 0; k < lanes; ++k)
    impl_->arenas.push_back(std::make_shared<LaneArena>(arena_in_use(device), device.arena()));
  impl_->record(n, body);
}

Loop::~Loop() {
  if (impl_ == nullptr || impl_->streams.empty() || impl_->main.capturing()) return;
  try {
    impl_->main.synchronize();  // its streams go, and with them what is queued
  } catch (...) {               // an iteration's error: nobody is left to hear it
  }
}

void Loop::run() {
  Impl& m = *impl_;
  if (stream_in_use(m.device) != nullptr) throw_inside("a run of a loop");
  if (m.program->operations == 0) return;
  m.require_unused();
  if (!m.on_streams()) {
    m.main.run(m.program->touches, [program = m.program, threads = m.device.threads()] {
      run_lanes(*program, threads);
    });
  } else if (m.gpu() && m.runs > 0 && !m.main.capturing()) {
    m.run_graph();
  } else {
    m.run_on_streams();
  }
  ++m.runs;
}

int Loop::lanes() const noexcept { return static_cast<int>(impl_->program->lanes.size()); }

std::size_t Loop::operations() const noexcept { return impl_->program->operations; }

void parallel_for(Device& device, std::int64_t n, const LoopOptions& options,
                  const LoopBody& body) {
  if (device.id().backend == Backend::cuda && device.main().capturing())
    throw DeviceError(ErrorText{.what = "parallel_for while a step is recorded",
                                .found = "its streams would go before the recording does",
                                .fix = "make a Loop before the step and run() it in the step"});
  Loop loop(device, n, options, body);
  loop.run();
}

}  // namespace belfry
