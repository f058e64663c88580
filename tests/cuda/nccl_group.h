// SPDX-License-Identifier: MIT
// A group of towers on simulated GPUs with the transport nccl: the plug-in's own objects, linked to
// simulated libraries.
#pragma once
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "belfry/allreduce/transport_choice.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/expect.h"
#include "belfry/tests/simcuda/simcuda.h"

namespace belfry::test {

struct Group {
  Group(int n, const sim::SchedulerOptions& schedule, TransportOptions options = {},
        const std::string& name = "nccl", const std::vector<int>& towers = {})
      : gpus(n, schedule), sim(gpus.machine()), context(gpus.options(towers)) {
    options.variables = Variables::replicated;
    transport = builtin().table<TransportEntry>().at(name, "transport").make(context, options);
  }
  // f(tower, communicator, device) on every tower's thread; what each has thrown, "" for nothing.
  template <class F>
  std::vector<std::string> run(F f) {
    std::vector<std::string> errors(static_cast<std::size_t>(context.towers()));
    context.host().run(context.towers(), [&](int t) {
      try {
        context.device(t).bind_thread();
        f(t, transport->communicator(t), context.device(t));
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(t)] = e.what();
        transport->control(t).abort();
        try {
          context.device(t).synchronize();
        } catch (const Error&) {  // the first error counts
        }
      }
    });
    return errors;
  }
  sim::Gpus gpus;
  sim::SimCuda& sim;
  Context context;
  std::unique_ptr<Transport> transport;
};

inline bool all_empty(const std::vector<std::string>& texts) {
  for (const std::string& t : texts)
    if (!t.empty()) return false;
  return true;
}

inline Tensor floats(Device& d, std::size_t n) {
  return Tensor::empty(Shape{static_cast<std::int64_t>(n)}, DType::f32, d);
}

// The numbers 0, 1, 2 ... in a device's memory: what a stream copies its values from.
class Numbers {
 public:
  Numbers(Device& d, std::size_t n) : all_(floats(d, n)) {
    std::vector<float> host(n);
    std::iota(host.begin(), host.end(), 0.f);
    d.main().copy(all_.raw(), host.data(), all_.bytes());
    d.main().synchronize();
  }
  void set(Stream& s, const Tensor& t, int from) const {
    s.copy(t.raw(), all_.data<float>() + from, t.bytes());
  }

 private:
  Tensor all_;
};

}  // namespace belfry::test
