// SPDX-License-Identifier: MIT
#include <array>
#include <cstring>
#include <map>

#include "belfry/autodiff/cast.kernel.h"
#include "belfry/autodiff/ops/elementwise/binary.kernel.h"
#include "belfry/autodiff/ops/image/conv2d_call.h"
#include "belfry/device/cuda/conv_plan.h"
#include "belfry/device/cuda/launch_by_name.h"
#include "belfry/device/cuda/scratch.h"

namespace belfry {
namespace {

constexpr std::size_t kWorkspace = std::size_t{256} << 20;  // of one plan, at most

// The plans of a device; in its slot.
class ConvPlans {
 public:
  const ConvPlan& find(CudaDevice& device, const ConvProblem& problem) {
    Key key{static_cast<std::int64_t>(problem.pass), problem.aligned ? 1 : 0};
    static_assert(sizeof problem.shape == (kWords - 2) * sizeof(std::int64_t));
    std::memcpy(&key[2], &problem.shape, sizeof problem.shape);
    auto it = plans_.find(key);
    if (it == plans_.end())
      it = plans_.emplace(key, plan_convolution(device, problem, kWorkspace)).first;
    return it->second;
  }

 private:
  static constexpr std::size_t kWords = 14;
  using Key = std::array<std::int64_t, kWords>;
  std::map<Key, ConvPlan> plans_;
};

// One pass over x, weight and y in f32.
struct Pass {
  ConvProblem problem;
  std::array<float*, 3> arrays;
  std::size_t result;  // which of them it writes
  const float* bias;   // null: none
};

float* raw(const float* p) { return const_cast<float*>(p); }

std::array<std::size_t, 3> sizes_of(const ConvShape& s) {
  return {conv_x_bytes(s) / sizeof(float), conv_weight_bytes(s) / sizeof(float),
          conv_y_bytes(s) / sizeof(float)};
}

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

void run_f32(CudaDevice& device, cudaStream_t stream, Pass& p) {
  for (const float* array : p.arrays) p.problem.aligned = p.problem.aligned && aligned(array);
  p.problem.aligned = p.problem.aligned && aligned(p.bias);
  const ConvPlan& plan = device.slot<ConvPlans>().find(device, p.problem);
  const Scratch workspace(device, stream, plan.workspace);
  execute(device, stream, plan, {p.arrays[0], p.arrays[1], p.arrays[2], p.bias, workspace.data()});
  if (p.bias == nullptr || plan.adds_bias) return;
  const auto columns = static_cast<std::size_t>(p.problem.shape.out);
  float* y = p.arrays[2];
  launch_rows(device, stream, sizes_of(p.problem.shape)[2] / columns,
              BinaryRows<float, AddMath>{y, p.bias, y, columns, 1});
}

// Arrays in bf16 beside those in f32; cuDNN has no convolution that reads bf16 and writes f32, so
// results are rounded once to bf16 and sums are f32.
void run_bf16(CudaDevice& device, cudaStream_t stream, const Pass& p) {
  const std::array<std::size_t, 3> sizes = sizes_of(p.problem.shape);
  const Scratch x(device, stream, sizes[0] * sizeof(BFloat16)),
      weight(device, stream, sizes[1] * sizeof(BFloat16)),
      y(device, stream, sizes[2] * sizeof(BFloat16));
  const std::array<void*, 3> narrow{x.data(), weight.data(), y.data()};
  for (std::size_t i = 0; i < narrow.size(); ++i)
    if (i != p.result)
      launch_elements(device, stream, sizes[i],
                      Narrow{p.arrays[i], static_cast<BFloat16*>(narrow[i])});
  const ConvPlan& plan = device.slot<ConvPlans>().find(device, p.problem);
  const Scratch workspace(device, stream, plan.workspace);
  execute(device, stream, plan, {narrow[0], narrow[1], narrow[2], nullptr, workspace.data()});
  launch_elements(device, stream, sizes[p.result],
                  Widen{static_cast<BFloat16*>(narrow[p.result]), p.bias, p.arrays[p.result],
                        static_cast<std::size_t>(p.problem.shape.out)});
}

void run(CudaDevice& device, cudaStream_t stream, Pass p) {
  p.problem.precision = device.precision();
  if (p.problem.precision == Precision::bf16)
    run_bf16(device, stream, p);
  else
    run_f32(device, stream, p);
}

void forward(CudaDevice& device, cudaStream_t stream, const ConvForwardCall& c) {
  run(device, stream, {{ConvPass::forward, c.s}, {raw(c.x), raw(c.weight), c.y}, 2, c.bias});
}

void backward_data(CudaDevice& device, cudaStream_t stream, const ConvBackwardDataCall& c) {
  run(device, stream,
      {{ConvPass::backward_data, c.s}, {c.dx, raw(c.weight), raw(c.dy)}, 0, nullptr});
}

void backward_weights(CudaDevice& device, cudaStream_t stream, const ConvBackwardWeightsCall& c) {
  run(device, stream,
      {{ConvPass::backward_weights, c.s}, {raw(c.x), c.dweight, raw(c.dy)}, 1, nullptr});
}

}  // namespace

void library_kernels_of_conv2d(KernelTable& t) {
  t.library<ConvForwardCall, forward>();
  t.library<ConvBackwardDataCall, backward_data>();
  t.library<ConvBackwardWeightsCall, backward_weights>();
}

}  // namespace belfry
