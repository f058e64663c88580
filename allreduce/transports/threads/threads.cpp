// SPDX-License-Identifier: MIT
#include "belfry/allreduce/transports/threads/group_internal.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

// Towers that are threads of one process and share its memory.
class ThreadsTransport : public Transport {
 public:
  ThreadsTransport(Context& context, const TransportOptions& options)
      : context_(context), options_(options), group_(context.host(), context.towers()) {
    for (int t = 0; t < context.towers(); ++t) {
      controls_.push_back(threads::make_control(group_, t));
      comms_.push_back(threads::make_communicator(group_, t, context.device(t)));
    }
  }
  Control& control(int tower) override { return *controls_.at(static_cast<std::size_t>(tower)); }
  Communicator& communicator(int tower) override {
    return *comms_.at(static_cast<std::size_t>(tower));
  }
  std::unique_ptr<Mover> mover(int tower, const FlatPlan& plan) override {
    Device& device = context_.device(tower);
    if (options_.variables == Variables::replicated)
      return make_sliced_mover(plan, device, communicator(tower), control(tower),
                               options_.delay_seconds);
    if (!device.host_memory())
      throw ConfigError(ErrorText{.what = "variables = \"shared\"",
                                  .found = name_of(device.id()) + ", whose memory is its own",
                                  .expected = "towers that share host memory",
                                  .fix = "set variables = \"replicated\""});
    if (!arrays_)
      arrays_ = threads::make_shared_arrays(plan, device, context_.host(), options_.delay_seconds);
    return threads::make_shared_mover(arrays_, group_, tower, device);
  }
  std::string describe() const override {
    return "averaging: threads (" + options_.reason + "), " +
           (options_.variables == Variables::shared
                ? "one shared copy of the variables (towers in one process read the same memory)"
            : context_.device(0).host_memory()
                ? "a copy of the variables a tower (asked for by variables = \"replicated\")"
                : "a copy of the variables a tower (each device has its own memory)");
  }

 private:
  Context& context_;
  TransportOptions options_;
  threads::Group group_;
  std::vector<std::unique_ptr<Control>> controls_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::shared_ptr<threads::SharedArrays> arrays_;
};

}  // namespace

void register_transport_threads(Registry& r) {
  r.table<TransportEntry>().add(
      "threads",
      {[](Context& context, const TransportOptions& options) -> std::unique_ptr<Transport> {
         return std::make_unique<ThreadsTransport>(context, options);
       },
       "towers of one process over shared memory"});
}

}  // namespace belfry
