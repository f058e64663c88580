// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "belfry/autodiff/tape.h"
#include "belfry/core/error.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/engine.kernel.h"
#include "belfry/towers/recorder_internal.h"

namespace belfry {
namespace {

// Shards of one kind are computed by the same operations.
std::string kind_of(const Batch& shard, std::int64_t batch_rows) {
  std::string out = std::to_string(shard.rows) + " of " + std::to_string(batch_rows);
  for (const std::string& name : shard.names())
    out += " " + name + " " + shard[name].shape().text() + " " +
           std::string(name_of(shard[name].dtype()));
  return out;
}

std::string at(const std::vector<std::string>& ops, std::size_t i) {
  return i < ops.size() ? ops[i] : "nothing";
}

}  // namespace

Recorder::Way Recorder::choose(std::int64_t update, const Batch& shard, std::int64_t batch_rows,
                               std::int64_t check_every) {
  if (!arena_) {
    arena_ = make_kept_arena(device_.arena());
    numbers_ = Tensor::zeros(Shape{sizeof(PassNumbers)}, DType::u8, device_);
  }
  const auto [found, first] = passes_.try_emplace(kind_of(shard, batch_rows));
  kind_ = found;
  pass_ = &found->second;
  update_ = update;
  base_row_ = shard.first_row;
  way_ = first                                                      ? Way::first
         : !pass_->graph                                            ? Way::record
         : check_every > 0 && update - pass_->update >= check_every ? Way::record
                                                                    : Way::replay;
  if (keeps()) {
    pass_->metrics.clear();
    ops_.clear();
  }
  place(shard);
  return way_;
}

void Recorder::place(const Batch& shard) {
  Stream& main = device_.main();
  if (way_ == Way::first) {
    const UseArena kept(device_, arena_);
    for (const std::string& name : shard.names())
      pass_->inputs.add(name, Tensor::empty(shard[name].shape(), shard[name].dtype(), device_));
  }
  Batch& inputs = pass_->inputs;
  inputs.place(shard);
  for (const std::string& name : shard.names())
    main.copy(inputs[name].raw(), shard[name].raw(), shard[name].bytes());
  launch_elements(
      main, 1,
      SetNumbers{static_cast<PassNumbers*>(numbers_.raw()),
                 {static_cast<std::uint32_t>(update_), static_cast<std::uint32_t>(base_row_)}});
}

std::unique_ptr<UseArena> Recorder::memory() {
  return keeps() ? std::make_unique<UseArena>(device_, arena_) : nullptr;
}

const PassNumbers* Recorder::numbers() const {
  return way_ == Way::record ? static_cast<const PassNumbers*>(numbers_.raw()) : nullptr;
}

void Recorder::begin() {
  if (way_ != Way::record) return;
  device_.main().begin_capture();
  capturing_ = true;
}

void Recorder::note(const Tape& tape) {
  if (!keeps()) return;
  for (const TapeNode& n : tape.nodes()) {
    std::string op = n.op;
    for (const int i : n.inputs) op += " " + std::to_string(i);
    ops_.push_back(op + " -> " + std::to_string(n.output));
  }
}

bool Recorder::end() {
  const bool again = pass_->graph != nullptr;
  pass_->graph = device_.main().end_capture();
  capturing_ = false;
  if (again && ops_ != pass_->ops) {
    const auto k = static_cast<std::size_t>(
        std::mismatch(ops_.begin(), ops_.end(), pass_->ops.begin(), pass_->ops.end()).first -
        ops_.begin());
    pass_->graph.reset();
    throw GradientError(
        ErrorText{.what = "the recorded step has other ops than in update " +
                          std::to_string(pass_->update) + ", first op " + std::to_string(k + 1),
                  .found = at(ops_, k),
                  .expected = at(pass_->ops, k),
                  .fix = "a step that is recorded may not depend on the update or on values: "
                         "train without capture",
                  .update = update_});
  }
  pass_->ops = ops_;
  pass_->update = update_;
  return !again;
}

void Recorder::abandon() noexcept {
  if (way_ == Way::record) pass_->graph.reset();
  if (way_ == Way::first) {  // it has not taken all its memory
    passes_.erase(kind_);
    pass_ = nullptr;
    way_ = Way::as_given;
  }
  if (!std::exchange(capturing_, false)) return;
  try {
    device_.main().end_capture();
  } catch (...) {  // the capture is broken by what was thrown
  }
}

std::string Recorder::describe() const {
  const ArenaStats s = arena_->stats();
  constexpr double kMiB = 1 << 20;
  return fmt::format(
      "step of {} recorded: {}; {} buffers of {:.2f} MiB planned, {:.2f} MiB in use at "
      "most",
      count_text(pass_->inputs.rows, "row"),
      count_text(static_cast<std::int64_t>(pass_->ops.size()), "op"), s.system_requests,
      static_cast<double>(s.reserved_bytes) / kMiB, static_cast<double>(s.peak_bytes) / kMiB);
}

}  // namespace belfry
