// SPDX-License-Identifier: MIT
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "belfry/allreduce/transports/nccl/nccl_internal.h"
#include "belfry/device/cuda/gpus_in_use.h"

namespace belfry::nccl {
namespace {

constexpr int kOldest = 21800;  // 2.18: ncclConfig_t as used here

std::string version_text(int code) {
  const int major = code >= 10000 ? code / 10000 : code / 1000;
  const int rest = code - major * (code >= 10000 ? 10000 : 1000);
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

void check_devices(const Context& context) {
  std::map<int, int> tower_of;
  for (int t = 0; t < context.towers(); ++t) {
    const DeviceId id = context.device(t).id();
    if (id.backend != Backend::cuda)
      throw DeviceError(ErrorText{.what = "transport = \"nccl\"",
                                  .found = "tower " + std::to_string(t) + " on " + name_of(id),
                                  .expected = "CUDA devices only",
                                  .fix = "set transport = \"auto\""});
    const auto [at, fresh] = tower_of.emplace(id.index, t);
    if (!fresh)
      throw DeviceError(
          ErrorText{.what = "transport = \"nccl\": several towers on " + name_of(id),
                    .found = "towers " + std::to_string(at->second) + " and " + std::to_string(t),
                    .expected = "a GPU for each tower: NCCL refuses two ranks on one",
                    .fix = "set transport = \"auto\" or \"threads\""});
  }
}

void check_environment(const Context& context) {
  const auto value = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string(v == nullptr ? "" : v);
  };
  if (context.towers() > 1 && !value("CUDA_LAUNCH_BLOCKING").empty() &&
      value("CUDA_LAUNCH_BLOCKING") != "0")
    throw DeviceError(ErrorText{
        .what = "CUDA_LAUNCH_BLOCKING with several GPUs in one process",
        .found = "\"" + value("CUDA_LAUNCH_BLOCKING") + "\"",
        .expected = "unset: a launch waits for its end, and NCCL's ends wait for all GPUs",
        .fix = "unset it, or use one tower"});
  if (!value("NCCL_COMM_ID").empty())
    throw DeviceError(ErrorText{.what = "NCCL_COMM_ID is set",
                                .found = "\"" + value("NCCL_COMM_ID") + "\"",
                                .expected = "unset: with it anybody who reaches that address joins",
                                .fix = "unset it; the group makes an id of its own"});
  std::string set;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e)
    if (std::strncmp(*e, "NCCL_", 5) == 0) set += (set.empty() ? "" : " ") + std::string(*e);
  if (!set.empty())
    context.log(
        "NCCL settings from the environment (they may change speed, and results where "
        "optimizer.reduce = \"fast\"): {}",
        set);
}

int library_version() {
  int code = 0;
  const ncclResult_t result = ncclGetVersion(&code);
  if (result != ncclSuccess)
    throw CommError(
        ErrorText{.what = "ncclGetVersion failed", .found = ncclGetErrorString(result)});
  if (code < kOldest)
    throw DeviceError(ErrorText{.what = "the NCCL library is too old",
                                .found = version_text(code),
                                .expected = version_text(kOldest) + " or newer"});
  return code;
}

// What towers tell each other before they meet in NCCL.
struct Greeting {
  int version = 0;
  ncclUniqueId id{};  // of tower 0
};

class NcclControl : public Control {
 public:
  NcclControl(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), control_(threads::make_control(shared_->group, rank)) {}
  int rank() const noexcept override { return control_->rank(); }
  int size() const noexcept override { return control_->size(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    try {
      return control_->all_gather(mine);
    } catch (const CommError&) {
      shared_->require_healthy();  // says what happened first
      throw;
    }
  }
  void barrier() override { all_gather({}); }
  void abort() noexcept override {
    shared_->fail({.what = "the group was aborted by tower " + std::to_string(rank()),
                   .fix = "destroy it; the first error says why",
                   .tower = rank()});
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Control> control_;
};

// On tower t's thread.
void join_nccl(Shared& shared, Control& control, int version) {
  Member& member = *shared.members[static_cast<std::size_t>(control.rank())];
  member.device.bind_thread();
  Greeting mine{.version = version};
  if (control.rank() == 0) check(ncclGetUniqueId(&mine.id), "ncclGetUniqueId", shared, member, {});
  const auto all = control.all_gather(std::as_bytes(std::span(&mine, 1)));
  std::vector<Greeting> greetings(all.size());
  for (std::size_t p = 0; p < all.size(); ++p)
    std::memcpy(&greetings[p], all[p].data(), sizeof(Greeting));
  for (const Greeting& g : greetings)
    if (g.version != greetings[0].version)
      throw CommError(ErrorText{.what = "the processes of the group use different NCCL libraries",
                                .found = version_text(g.version),
                                .expected = version_text(greetings[0].version) + ", as tower 0",
                                .tower = control.rank()});
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  check(ncclCommInitRankConfig(&comm, control.size(), greetings[0].id, control.rank(), &config),
        "ncclCommInitRankConfig", shared, member, {});
  member.comm = comm;
}

std::vector<int> gpus_of(const Context& context) {
  std::vector<int> out;
  for (int t = 0; t < context.towers(); ++t) out.push_back(context.device(t).id().index);
  return out;
}

class NcclTransport : public Transport {
 public:
  NcclTransport(Context& context, const TransportOptions& options, int version)
      : context_(context),
        options_(options),
        in_use_(&context, gpus_of(context)),
        version_(version),
        shared_(std::make_shared<Shared>(context, options)) {
    for (int t = 0; t < context.towers(); ++t)
      controls_.push_back(std::make_unique<NcclControl>(shared_, t));
    join_all();
    watchdog_ = std::make_unique<Watchdog>(shared_);
    for (int t = 0; t < context.towers(); ++t)
      comms_.push_back(make_communicator(shared_, t, *watchdog_));
  }
  ~NcclTransport() override {
    watchdog_->end();
    if (!shared_->failed()) end_all();
  }
  Control& control(int tower) override { return *controls_.at(static_cast<std::size_t>(tower)); }
  Communicator& communicator(int tower) override {
    return *comms_.at(static_cast<std::size_t>(tower));
  }
  std::unique_ptr<Mover> mover(int tower, const FlatPlan& plan) override {
    return make_sliced_mover(plan, context_.device(tower), communicator(tower), control(tower),
                             options_.delay_seconds);
  }
  std::string describe() const override {
    return "averaging: NCCL " + version_text(version_) +
           ", a copy of the variables a tower; a collective may take " +
           fmt::format("{:g}", options_.timeout_seconds) + " s (" + options_.reason + ")";
  }

 private:
  void join_all() {
    try {
      context_.host().run(context_.towers(), [&](int t) {
        try {
          join_nccl(*shared_, control(t), version_);
        } catch (const Error& e) {
          shared_->fail(e.text());  // what the others say then
          throw;
        }
      });
    } catch (...) {
      end_all();
      throw;
    }
  }

  // Every communicator by the thread of its tower.
  void end_all() noexcept {
    try {
      context_.host().run(context_.towers(), [&](int t) {
        Member& member = *shared_->members[static_cast<std::size_t>(t)];
        if (member.comm == nullptr) return;
        member.device.bind_thread();
        close_communicator(*shared_, member);
      });
    } catch (...) {  // nobody waits for them any more
    }
  }

  Context& context_;
  TransportOptions options_;
  GpusInUse in_use_;
  int version_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Control>> controls_;
  std::unique_ptr<Watchdog> watchdog_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

std::unique_ptr<Transport> make(Context& context, const TransportOptions& options) {
  check_devices(context);
  check_environment(context);
  return std::make_unique<NcclTransport>(context, options, library_version());
}

}  // namespace
}  // namespace belfry::nccl

namespace belfry {

const void* extension_nccl() {
  static constexpr TransportMaker kMaker{nccl::make};
  return &kMaker;
}

}  // namespace belfry
