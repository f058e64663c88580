// SPDX-License-Identifier: MIT
// Every optimizer rule's update on a GPU beside the CPU's.
#include "belfry/autodiff/tensor.h"
#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cuda/gpus.h"
#include "belfry/tests/optim/rule_fixture.h"
#include "belfry/tests/optim/rule_variants.h"

using namespace belfry;
using namespace belfry::sim;

namespace {

// `n` values in a device's memory.
template <class T>
Tensor placed(Device& device, const T* values, std::size_t n) {
  static_assert(sizeof(T) % sizeof(float) == 0);
  const auto floats = static_cast<std::int64_t>(n * sizeof(T) / sizeof(float));
  Tensor t = Tensor::empty(Shape{floats}, DType::f32, device);
  device.main().copy(t.raw(), values, n * sizeof(T));
  device.main().synchronize();
  return t;
}

}  // namespace

TEST_CASE("every rule updates on a GPU as on the CPU", "[cuda][rules][short]") {
  constexpr std::size_t kSize = 1001;
  const std::vector<SegmentRef> segments = {{0, 333, 0}, {333, 2, 0}, {335, 666, 0}};
  const Registry registry = builtin();
  Gpus gpus(1);
  std::size_t rules = 0;
  {
    const std::unique_ptr<Device> gpu = gpus.device();
    gpu->bind_thread();
    const Tensor pieces = placed(*gpu, segments.data(), segments.size());
    for (const auto& [name, entry] : registry.table<RuleEntry>())
      for (const auto& rule : test::rule_variants(entry)) {
        INFO("rule " << name);
        const std::vector<float> initial = test::normals(kSize, 0);
        test::RuleRun cpu(*rule, initial);
        cpu.cuts = {333, 335};
        const Tensor param = placed(*gpu, initial.data(), kSize);
        std::vector<Tensor> states;
        for (const auto& state : cpu.state) states.push_back(placed(*gpu, state.data(), kSize));
        for (int step = 1; step <= 5; ++step) {
          const auto grad = test::normals(kSize, static_cast<std::uint32_t>(step));
          const auto square = test::squares_of(grad);
          const UpdateScalars scalars{.lr = 0.01f,
                                      .decay = 0.1f,
                                      .clip = step % 2 == 0 ? 0.25f : 1.0f,
                                      .step = static_cast<float>(step)};
          cpu.update(grad, scalars, square);
          const Tensor g = placed(*gpu, grad.data(), kSize), q = placed(*gpu, square.data(), kSize),
                       s = placed(*gpu, &scalars, 1);
          UpdateArgs args{.rows = segments.size(),
                          .segments = static_cast<const SegmentRef*>(pieces.raw()),
                          .size = kSize,
                          .param = param.data<float>(),
                          .grad = g.data<float>(),
                          .square = q.data<float>(),
                          .scalars = static_cast<const UpdateScalars*>(s.raw()),
                          .variables = 1};
          for (std::size_t k = 0; k < states.size(); ++k) args.state[k] = states[k].data<float>();
          if (rule->layerwise()) {
            const SegmentRange all{0, static_cast<unsigned>(segments.size())};
            const Tensor range = placed(*gpu, &all, 1),
                         norms =
                             Tensor::zeros(Shape{2 * static_cast<std::int64_t>(segments.size())},
                                           DType::f32, *gpu);
            auto* const n = static_cast<SegmentNorms*>(norms.raw());
            rule->measure(gpu->main(), args, n);
            launch_rows(
                gpu->main(), 1,
                ScaleRates{n, segments.size(), static_cast<const SegmentRange*>(range.raw()),
                           static_cast<UpdateScalars*>(s.raw())});
          }
          rule->update(gpu->main(), args);
        }
        const auto near = [](const Tensor& got, const std::vector<float>& want) {
          const std::vector<double> values = got.to_vector();
          return test::distance(want, values) <= 1e-6;
        };
        CHECK(near(param, cpu.param));
        for (std::size_t k = 0; k < states.size(); ++k) CHECK(near(states[k], cpu.state[k]));
        ++rules;
      }
  }
  CHECK(rules >= 6);
  CHECK(gpus.faults() == std::vector<std::string>{});
}
