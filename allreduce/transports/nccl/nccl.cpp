// SPDX-License-Identifier: MIT
#include "belfry/allreduce/mover.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

// The code that calls NCCL is in the CUDA plug-in, which a context's platform stands for.
std::unique_ptr<Transport> make(Context& context, const TransportOptions& options) {
  if (const void* maker = context.platform() ? context.platform()->extension("nccl") : nullptr)
    return static_cast<const TransportMaker*>(maker)->make(context, options);
  const bool cuda = context.device(0).id().backend == Backend::cuda;
  throw DeviceError(ErrorText{
      .what = "transport = \"nccl\"",
      .found = cuda ? "a CUDA plug-in built without NCCL" : "towers that are not CUDA devices",
      .expected = cuda ? "a plug-in with NCCL" : "towers = \"cuda:...\"",
      .fix = "set transport = \"auto\" or \"threads\""});
}

}  // namespace

void register_transport_nccl(Registry& r) {
  r.table<TransportEntry>().add("nccl", {make, "towers on GPUs of their own, through NCCL"});
}

}  // namespace belfry
