// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/device/context.h"
#include "belfry/device/cpu/streams_internal.h"
#include "belfry/tests/sim/host.h"
#include "belfry/tests/sim/separate.h"

namespace belfry::sim {

// CPU devices whose streams are queues of a Scheduler, and host threads that take turns. Give it to
// a Context; reports() and counts stay readable after the context is gone. With `separate_memory`
// the devices are like GPUs: see SeparateMemory.
class SimPlatform : public Platform {
 public:
  explicit SimPlatform(const SchedulerOptions& options, bool separate_memory = false);
  ~SimPlatform() override;
  std::unique_ptr<Host> host() override;
  std::unique_ptr<Device> device(int index, int threads) override;
  Scheduler& scheduler() { return scheduler_; }
  const SeparateMemory& memory() const { return *memory_; }

 private:
  Scheduler scheduler_;
  std::unique_ptr<SeparateMemory> memory_;  // null: the host's
};

// A stream of the scheduler.
class SimStream : public QueuedStream {
 public:
  SimStream(Scheduler& scheduler, SeparateMemory* memory, DeviceId device, int threads,
            const std::string& name);
  ~SimStream() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  void launch(const KernelCall& call) override;
  void synchronize() override;
  void host_access(const Touches& touches) override;
  int queue() const { return queue_; }
  // What is put on the queue beside push().
  void submitted(SeparateMemory::Kind kind, const std::vector<Range>& ranges,
                 const std::string& what);

 protected:
  void push(OwnedTask task) override;

 private:
  using Kind = SeparateMemory::Kind;
  Scheduler& scheduler_;
  SeparateMemory* memory_;
  std::string name_, what_;
  Kind kind_ = Kind::kernel;
  int queue_;
};

}  // namespace belfry::sim
