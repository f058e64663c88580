// SPDX-License-Identifier: MIT
// A recorded sequence of kernels on two streams, replayed, beside the same sequence as it is given.
#include <cstring>

#include "belfry/autodiff/ops/reduce/sum.kernel.h"
#include "belfry/autodiff/tensor.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/optim/rule_fixture.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

constexpr std::size_t kSize = 10000;

// Momentum's updates of parameters, then the sum of their blocks on a side stream.
class Sequence {
 public:
  explicit Sequence(Device& device)
      : device_(device),
        rule_(builtin().table<RuleEntry>().at("momentum", "rule").make()),
        side_(device.stream()),
        fork_(device.event()),
        join_(device.event()),
        param_(placed(test::normals(kSize, 0))),
        grad_(placed(test::normals(kSize, 1))),
        state_(placed(std::vector<float>(kSize, 0))),
        partial_(placed(std::vector<float>(sum_blocks(kSize), 0))),
        segments_(Tensor::zeros(Shape{2 * kWords}, DType::f32, device)),
        scalars_(Tensor::zeros(Shape{sizeof(UpdateScalars) / 4}, DType::f32, device)) {
    const SegmentRef segments[2] = {{0, 4096, 0}, {4096, kSize - 4096, 0}};
    const UpdateScalars scalars{.lr = 0.1f};
    device.main().copy(segments_.raw(), segments, sizeof segments);
    device.main().copy(scalars_.raw(), &scalars, sizeof scalars);
    device.main().synchronize();
  }
  void give() {
    Stream& main = device_.main();
    UpdateArgs args{.rows = 2,
                    .segments = static_cast<const SegmentRef*>(segments_.raw()),
                    .size = kSize,
                    .param = param_.data<float>(),
                    .grad = grad_.data<float>(),
                    .scalars = static_cast<const UpdateScalars*>(scalars_.raw()),
                    .variables = 1};
    args.state[0] = state_.data<float>();
    rule_->update(main, args);
    main.record(*fork_);
    side_->wait(*fork_);
    launch_rows(*side_, sum_blocks(kSize),
                BlockSum<float>{param_.data<float>(), kSize, partial_.data<float>()});
    side_->record(*join_);
    main.wait(*join_);
    main.copy(grad_.raw(), partial_.raw(), partial_.bytes());  // so that replays differ
  }
  std::vector<std::vector<double>> values() const {
    return {param_.to_vector(), state_.to_vector(), partial_.to_vector(), grad_.to_vector()};
  }

 private:
  static constexpr std::int64_t kWords = sizeof(SegmentRef) / 4;
  Tensor placed(const std::vector<float>& values) const {
    return Tensor::from(std::vector<double>(values.begin(), values.end()),
                        Shape{static_cast<std::int64_t>(values.size())}, DType::f32, device_);
  }
  Device& device_;
  std::unique_ptr<Rule> rule_;
  std::unique_ptr<Stream> side_;
  std::unique_ptr<Event> fork_, join_;
  Tensor param_, grad_, state_, partial_, segments_, scalars_;
};

}  // namespace

TEST_CASE("a recorded sequence of kernels gives the bits of the given one",
          "[cuda][capture][short]") {
  Gpus gpus(1, {.seed = 4});
  {
    const std::unique_ptr<Device> gpu = gpus.device();
    gpu->bind_thread();
    Sequence given(*gpu), recorded(*gpu);
    given.give();  // kernels are loaded by their first launch, which need not go while capturing
    recorded.give();
    const auto before = recorded.values();
    gpu->main().begin_capture();
    recorded.give();
    const std::unique_ptr<Graph> graph = gpu->main().end_capture();
    CHECK(recorded.values() == before);  // nothing has run yet
    for (int i = 0; i < 3; ++i) {
      given.give();
      gpu->main().replay(*graph);
      gpu->main().synchronize();
      CHECK(recorded.values() == given.values());
    }
    CHECK(recorded.values() != before);
  }
  CHECK(gpus.faults() == std::vector<std::string>{});
}
