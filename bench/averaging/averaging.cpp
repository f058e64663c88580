// SPDX-License-Identifier: MIT
// Averaging and momentum of one large variable beside plain loops over the same memory.
#include <memory>

#include "belfry/autodiff/custom_op.h"
#include "belfry/bench/common/limits.h"
#include "belfry/bench/common/options.h"
#include "belfry/bench/common/results.h"
#include "belfry/data/memory.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/group.h"

namespace belfry::bench {
namespace {

struct Net : Module {
  explicit Net(std::int64_t n) : theta(*this, "theta", {n}, Init::uniform(0.1)) {}
  Variable theta;
};

// A loss whose gradient costs nothing: backward writes it in the first pass of each tower and then
// leaves it in the tower's flat gradient.
Loss constant_gradient(Module& module, const Batch& batch, Step& step) {
  const Tensor& theta = static_cast<Net&>(module).theta.tensor();
  const bool write = step.update == 1;
  Loss loss;
  loss.mean = custom_op(
      "constant_gradient", {theta},
      [](std::span<const Tensor> in) { return Tensor::zeros(Shape{}, DType::f32, in[0].device()); },
      [write](Backward& b, std::span<const Tensor> in, const Tensor&) {
        const Tensor to = b.into(0);
        if (write) in[0].device().main().fill(to.raw(), 0x3c, to.bytes());  // 0.0115 each
      });
  loss.weight =
      Tensor::from({static_cast<double>(batch.rows)}, Shape{}, DType::f32, theta.device());
  return loss;
}

class Averaging {
 public:
  Averaging(Context& context, std::int64_t elements, bool guard)
      : group_(context, optimizer(guard), [elements] { return std::make_unique<Net>(elements); }) {
    const std::int64_t rows = context.towers();
    Loader loader(context,
                  memory_dataset(std::vector<float>(static_cast<std::size_t>(rows), 1.f), Shape{1},
                                 std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0), 1),
                  {.batch = rows, .shuffle = false, .prefetch = 0});
    loader.next(batch_);
    for (int i = 0; i < 3; ++i) seconds();
  }
  double seconds() {
    const Report r = group_.step(batch_, constant_gradient);
    return r.exposed + r.update_seconds;
  }

 private:
  static Optimizer optimizer(bool guard) {
    Optimizer o = momentum({.lr = 1e-3, .momentum = 0.9});
    o.guard = guard;
    return o;
  }
  TowerGroupBase group_;
  Batch batch_;
};

bool run(const Options& options) {
  Results results("averaging");
  results.setting("towers", std::to_string(options.towers));
  results.setting("elements", std::to_string(options.elements));
  Context context({.towers = "cpu:" + std::to_string(options.towers), .threads_per_tower = 1});
  Averaging guarded(context, options.elements, true), fused(context, options.elements, false);
  AveragingLimit limit(context, static_cast<std::size_t>(options.elements));
  limit.two_pass_seconds();
  limit.one_pass_seconds();
  const double array = 4.0 * static_cast<double>(options.elements);
  const double two = array * (options.towers + 6), one = array * (options.towers + 4);
  Samples guarded_time, fused_time, guarded_rate, fused_rate, two_rate, one_rate;
  for (int i = 0; i < options.rounds; ++i) {
    guarded_time.add(guarded.seconds());
    guarded_rate.add(two / guarded_time.values.back());
    two_rate.add(two / limit.two_pass_seconds());
    fused_time.add(fused.seconds());
    fused_rate.add(one / fused_time.values.back());
    one_rate.add(one / limit.one_pass_seconds());
  }
  results.figure("guarded_time", "average, then momentum", guarded_time, "us", 1e6);
  results.figure("fused_time", "one pass without guard", fused_time, "us", 1e6);
  results.figure("guarded", "average, then momentum: (N + 6) S", guarded_rate, "GB/s", 1e-9);
  results.figure("guarded_limit", "  plain loops, same traffic", two_rate, "GB/s", 1e-9);
  results.figure("guarded_share", "  share", ratio(guarded_rate, two_rate), "%", 100);
  results.figure("fused", "one pass without guard: (N + 4) S", fused_rate, "GB/s", 1e-9);
  results.figure("fused_limit", "  plain loop, same traffic", one_rate, "GB/s", 1e-9);
  results.figure("fused_share", "  share", ratio(fused_rate, one_rate), "%", 100);
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
