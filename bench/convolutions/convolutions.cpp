// SPDX-License-Identifier: MIT
// The convolutions of lenet, resnet20 and resnet18 through the library's calls beside oneDNN's own
// kernels, on one thread: where kernels of ours stand in for oneDNN they have to be the faster
// ones.
#include <algorithm>
#include <string>
#include <vector>

#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/results.h"
#include "belfry/device/context.h"
#include "belfry/device/cpu/onednn_internal.h"

namespace belfry::bench {
namespace {

constexpr int kCalls = 12;

struct Layer {
  std::string name;
  std::int64_t images, side, in, out, kernel, padding;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> all = {
      {"lenet, first", 64, 28, 1, 6, 5, 2},     {"lenet, second", 64, 14, 6, 16, 5, 0},
      {"resnet20, first", 64, 32, 3, 16, 3, 1}, {"resnet20, 16", 64, 32, 16, 16, 3, 1},
      {"resnet20, 32", 64, 16, 32, 32, 3, 1},   {"resnet20, 64", 64, 8, 64, 64, 3, 1},
      {"resnet18, 64", 8, 56, 64, 64, 3, 1},    {"resnet18, 128", 8, 28, 128, 128, 3, 1},
      {"resnet18, 256", 8, 14, 256, 256, 3, 1}, {"resnet18, 512", 8, 7, 512, 512, 3, 1},
  };
  return all;
}

ConvShape shape_of(const Layer& l) {
  const std::int64_t o = l.side + 2 * l.padding - l.kernel + 1;
  return {l.images, l.side, l.side, l.in, o, o, l.out, l.kernel, l.kernel, 1, l.padding, 0};
}

// The least of some calls: other work can only add to it.
template <class F>
double seconds_of(const F& fn) {
  fn();
  double least = 1e9;
  for (int i = 0; i < kCalls; ++i) {
    const Clock::time_point start = Clock::now();
    fn();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

class Convolutions {
 public:
  explicit Convolutions(Results& results)
      : results_(results), context_({.towers = "cpu:1", .threads_per_tower = 1}) {
    context_.device(0).bind_thread();
  }

  void measure(const Layer& layer, int rounds) {
    const ConvShape s = shape_of(layer);
    const float* x = memory(s.n * s.h * s.w * s.in);
    const float* weight = memory(s.out * s.kh * s.kw * s.in);
    float *y = memory(s.n * s.oh * s.ow * s.out), *dx = memory(s.n * s.h * s.w * s.in);
    float* dweight = memory(s.out * s.kh * s.kw * s.in);
    HostTeam team;
    const ConvForwardCall forward{s, x, weight, nullptr, y, &onednn_};
    const ConvBackwardDataCall data{s, y, weight, dx, &onednn_};
    const ConvBackwardWeightsCall weights{s, x, y, dweight, &onednn_};
    beside(
        layer.name + ", forward", s, rounds, [&] { forward(team, 0); },
        [&] { onednn_.conv_forward(s, x, weight, nullptr, y); });
    beside(
        layer.name + ", data", s, rounds, [&] { data(team, 0); },
        [&] { onednn_.conv_backward_data(s, y, weight, dx); });
    beside(
        layer.name + ", weights", s, rounds, [&] { weights(team, 0); },
        [&] { onednn_.conv_backward_weights(s, x, y, dweight); });
    memory_.clear();
  }

 private:
  template <class Ours, class Theirs>
  void beside(const std::string& what, const ConvShape& s, int rounds, const Ours& ours,
              const Theirs& theirs) {
    const double flops = 2e-9 * static_cast<double>(s.n * s.oh * s.ow) *
                         static_cast<double>(s.out * s.kh * s.kw * s.in);
    Samples seconds, onednn, rate;
    for (int r = 0; r < rounds; ++r) {
      seconds.add(seconds_of(ours));
      onednn.add(seconds_of(theirs));
      rate.add(flops / seconds.values.back());
    }
    results_.figure(what, what, seconds, "us", 1e6);
    results_.figure(what + ", rate", "  as plain sums", rate, "GFLOP/s");
    results_.figure(what + " / oneDNN", "  oneDNN / it", ratio(onednn, seconds), "x");
    results_.at_least(what + " / oneDNN", 0.85);  // what oneDNN does itself is 1, and noise
  }

  float* memory(std::int64_t elements) {
    memory_.push_back(Tensor::from(std::vector<double>(static_cast<std::size_t>(elements), 0.03),
                                   Shape{elements}, DType::f32, context_.device(0)));
    return memory_.back().data<float>();
  }

  Results& results_;
  Context context_;
  OneDnn onednn_;
  std::vector<Tensor> memory_;
};

bool run(const Options& options) {
  Results results("convolutions");
  Convolutions convolutions(results);
  for (const Layer& layer : layers()) convolutions.measure(layer, options.rounds);
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
