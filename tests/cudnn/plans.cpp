// SPDX-License-Identifier: MIT
// cuDNN plans every convolution of the models for a GPU that is not here: only to run one needs it.
#include <algorithm>

#include "belfry/core/error.h"
#include "belfry/device/cuda/cudnn_plan.h"
#include "belfry/tests/catch.h"
#include "belfry/tests/cudnn/h200.h"

namespace belfry {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kBudget = 256 * kMiB;

ConvShape shape(std::int64_t n, std::int64_t side, std::int64_t in, std::int64_t out,
                std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool bias) {
  const std::int64_t result = (side + 2 * padding - kernel) / stride + 1;
  return {.n = n,
          .h = side,
          .w = side,
          .in = in,
          .oh = result,
          .ow = result,
          .out = out,
          .kh = kernel,
          .kw = kernel,
          .stride = stride,
          .padding = padding,
          .bias = bias ? 1 : 0};
}

// LeNet on 28 x 28, ResNet-20 on 32 x 32; a full batch, a short last one, a single row.
std::vector<ConvShape> model_shapes() {
  std::vector<ConvShape> out;
  for (const std::int64_t n : {128, 17, 1}) {
    out.push_back(shape(n, 28, 1, 6, 5, 1, 2, true));
    out.push_back(shape(n, 14, 6, 16, 5, 1, 0, true));
    out.push_back(shape(n, 32, 3, 16, 3, 1, 1, false));
    for (const std::int64_t channels : {16, 32, 64}) {
      const std::int64_t side = 512 / channels;
      out.push_back(shape(n, side, channels, channels, 3, 1, 1, false));
      if (channels == 16) continue;
      out.push_back(shape(n, 2 * side, channels / 2, channels, 3, 2, 1, false));
      out.push_back(shape(n, 2 * side, channels / 2, channels, 1, 2, 0, false));
    }
  }
  return out;
}

const CudnnTarget& h200() {
  static const CudnnTarget target = target_of_properties(test::kH200);
  return target;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const ConvPlan& plan) {
  const auto configuration =
      static_cast<const CudnnDescriptor*>(plan.own.get())
          ->parts(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  return configuration.at(0)
      .parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
      .at(0)
      .numerical_notes();
}

bool has(const ConvPlan& plan, cudnnBackendNumericalNote_t note) {
  const auto notes = notes_of(plan);
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

// What an engine does to the numbers.
void check_notes(const ConvPlan& plan) {
  for (const auto note :
       {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    CHECK_FALSE(has(plan, note));
  if (plan.problem.precision != Precision::f32) return;
  CHECK_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  CHECK_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::backward_data,
                                ConvPass::backward_weights};
constexpr Precision kPrecisions[] = {Precision::f32, Precision::tf32, Precision::bf16};

}  // namespace

TEST_CASE("cuDNN has a plan for every convolution of the models in every precision", "[cudnn]") {
  std::size_t plans = 0, most = 0, on_tensor_cores = 0;
  for (const ConvShape& s : model_shapes())
    for (const ConvPass pass : kPasses)
      for (const Precision precision : kPrecisions) {
        const ConvProblem problem{pass, s, precision};
        INFO(text(problem));
        const ConvPlan plan = plan_convolution(h200(), problem, kBudget);
        ++plans;
        most = std::max(most, plan.workspace);
        REQUIRE(plan.own != nullptr);
        CHECK(plan.workspace <= kBudget);
        check_notes(plan);
        const bool tensor_core = has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        on_tensor_cores += tensor_core ? 1 : 0;
        const bool biased = pass == ConvPass::forward && s.bias != 0;
        CHECK(plan.adds_bias == (biased && precision != Precision::bf16));
      }
  CHECK(plans == 30 * 9);
  CHECK(on_tensor_cores > plans / 3);
  WARN(plans << " plans, " << on_tensor_cores << " on tensor cores, at most " << most / kMiB
             << " MiB of workspace");
}

// cuDNN offers an A100 Winograd engines for these, before others for some.
TEST_CASE("engines that transform what they multiply are left out in every precision", "[cudnn]") {
  std::string a100 = test::kH200;
  const std::string version = "\"deviceVer\":900";
  a100.replace(a100.find(version), version.size(), "\"deviceVer\":800");
  const CudnnTarget target = target_of_properties(a100);
  std::vector<ConvShape> shapes = model_shapes();
  for (const std::int64_t n : {1, 32, 256})
    for (const std::int64_t channels : {64, 128, 512})
      shapes.push_back(shape(n, 4096 / channels, channels, channels, 3, 1, 1, false));
  for (const ConvShape& s : shapes)
    for (const ConvPass pass : kPasses)
      for (const Precision precision : kPrecisions)
        for (const std::size_t budget : {4 * kMiB, kBudget}) {
          const ConvProblem problem{pass, s, precision};
          INFO(text(problem) << " within " << budget);
          check_notes(plan_convolution(target, problem, budget));
        }
}

TEST_CASE("arrays that are not aligned have plans too", "[cudnn]") {
  for (const ConvPass pass : kPasses)
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      const ConvProblem problem{pass, shape(128, 32, 3, 16, 3, 1, 1, true), precision, false};
      INFO(text(problem));
      CHECK(plan_convolution(h200(), problem, kBudget).own != nullptr);
    }
}

TEST_CASE("a smaller budget of workspace gives another plan", "[cudnn]") {
  const ConvProblem problem{ConvPass::forward, shape(128, 32, 16, 16, 3, 1, 1, false),
                            Precision::f32};
  CHECK(plan_convolution(h200(), problem, kBudget).workspace > kMiB);
  CHECK(plan_convolution(h200(), problem, kMiB).workspace <= kMiB);
}

TEST_CASE("what cuDNN refuses is named with its own words", "[cudnn]") {
  for (const ConvPass pass : kPasses) {
    ConvProblem problem{pass, shape(64, 28, 1, 6, 5, 1, 2, true), Precision::tf32};
    problem.shape.oh = 27;
    std::string message;
    try {
      plan_convolution(h200(), problem, kBudget);
    } catch (const DeviceError& e) {
      message = e.what();
    }
    INFO(message);
    for (const char* part : {"cuDNN cannot run conv_", "[64, 28, 28, 1]", "[6, 5, 5, 1]",
                             "[64, 27, 28, 6]", "stride 1, padding 2, in tf32", "BAD_PARAM",
                             "is_valid_spatial_dim", "cudnnBackendFinalize"})
      CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace belfry
