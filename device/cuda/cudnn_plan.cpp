// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/cudnn_plan.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>

#include "belfry/core/error.h"

namespace belfry {
namespace {

using Notes = std::vector<cudnnBackendNumericalNote_t>;

constexpr std::int64_t kSum = 's';  // the convolution before the bias: never in memory

// A pass's operation and its attributes' names.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, weight, x, y;
};

Operation operation_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      break;
    case ConvPass::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvPass::backward_weights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
}

// An array stored [n, h, w, c]; cuDNN names extents in the order n, c, h, w all the same.
CudnnDescriptor tensor(std::int64_t name, std::int64_t n, std::int64_t h, std::int64_t w,
                       std::int64_t c, cudnnDataType_t type, bool aligned, bool in_memory = true) {
  CudnnDescriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  d.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w});
  d.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c});
  d.set_numbers(CUDNN_ATTR_TENSOR_UNIQUE_ID, {name});
  d.set_numbers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {aligned ? 16 : 4});
  if (!in_memory) d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  d.finalize();
  return d;
}

// The operations of a pass with everything they refer to.
struct Graph {
  std::deque<CudnnDescriptor> parts;  // they stay where they are
  CudnnDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
};

CudnnDescriptor convolution(const ConvShape& s) {
  CudnnDescriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  constexpr cudnnConvolutionMode_t kMode = CUDNN_CROSS_CORRELATION;
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &kMode);
  d.set_numbers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
  d.set_numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
  d.set_numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride, s.stride});
  d.set_numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding, s.padding});
  d.set_numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding, s.padding});
  d.finalize();
  return d;
}

// y = sum + bias.
CudnnDescriptor bias_operation(Graph& g, const ConvShape& s, const CudnnDescriptor& sum,
                               bool aligned) {
  g.parts.push_back(tensor(kCudnnBias, 1, 1, 1, s.out, CUDNN_DATA_FLOAT, aligned));
  g.parts.push_back(tensor(kCudnnY, s.n, s.oh, s.ow, s.out, CUDNN_DATA_FLOAT, aligned));
  CudnnDescriptor add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  constexpr cudnnPointwiseMode_t kMode = CUDNN_POINTWISE_ADD;
  add.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &kMode);
  add.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  add.finalize();
  CudnnDescriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, g.parts[g.parts.size() - 2]);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, g.parts.back());
  d.finalize();
  g.parts.push_back(std::move(add));
  return d;
}

Graph graph_of(const CudnnTarget& target, const ConvProblem& p, bool with_bias) {
  const ConvShape& s = p.shape;
  const Operation o = operation_of(p.pass);
  const auto type = p.precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  Graph g;
  const CudnnDescriptor conv = convolution(s);
  g.parts.push_back(tensor(kCudnnX, s.n, s.h, s.w, s.in, type, p.aligned));
  g.parts.push_back(tensor(kCudnnWeight, s.out, s.kh, s.kw, s.in, type, p.aligned));
  g.parts.push_back(
      tensor(with_bias ? kSum : kCudnnY, s.n, s.oh, s.ow, s.out, type, p.aligned, !with_bias));
  CudnnDescriptor d(o.type);
  d.set(o.alpha, 1.0f);
  d.set(o.beta, 0.0f);
  d.set(o.convolution, conv);
  d.set(o.x, g.parts[0]);
  d.set(o.weight, g.parts[1]);
  d.set(o.y, g.parts[2]);
  d.finalize();
  std::vector<cudnnBackendDescriptor_t> operations{d.get()};
  g.parts.push_back(std::move(d));
  if (with_bias) {
    g.parts.push_back(bias_operation(g, s, g.parts[2], p.aligned));
    operations.push_back(g.parts.back().get());
  }
  g.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(operations.size()), operations.data());
  if (target.handle != nullptr)
    g.graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  g.graph.finalize();
  return g;
}

bool has(const Notes& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

// Same bits each time, and the numbers that the precision promises: products of the inputs, which
// f32 takes as they are and the others round once, added up in f32. Winograd and FFT engines
// multiply and round what they have transformed, by points that cuDNN does not tell: with the usual
// ones errors are four times those of sums (the CPU's own have twice;
// winograd_transforms.kernel.h).
bool acceptable(const CudnnDescriptor& configuration, Precision precision) {
  const auto engines =
      configuration.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const Notes notes = engines.at(0).numerical_notes();
  constexpr cudnnBackendNumericalNote_t kNever[] = {
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
      CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
      CUDNN_NUMERICAL_NOTE_FFT,
      CUDNN_NUMERICAL_NOTE_WINOGRAD,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
  if (std::any_of(std::begin(kNever), std::end(kNever),
                  [&](cudnnBackendNumericalNote_t note) { return has(notes, note); }))
    return false;
  return precision != Precision::f32 || (!has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
                                         !has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

std::vector<CudnnDescriptor> configurations(const CudnnTarget& target, const Graph& graph,
                                            cudnnBackendHeurMode_t mode) {
  CudnnDescriptor d(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  d.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph);
  d.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.handle == nullptr) d.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.properties);
  d.finalize();
  return d.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

// An engine may refuse only here; cuDNN's own front end tries the next one as well.
std::optional<CudnnDescriptor> built(const CudnnTarget& target,
                                     const CudnnDescriptor& configuration, std::size_t budget) {
  try {
    CudnnDescriptor d(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target.handle != nullptr)
      d.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    else
      d.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.properties);
    d.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    d.finalize();
    const std::int64_t workspace = d.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    if (static_cast<std::size_t>(workspace) <= budget) return d;
  } catch (const CudnnRefusal&) {
  }
  return std::nullopt;
}

// The first plan in the order of cuDNN's own estimate of speed.
std::optional<CudnnDescriptor> first_plan(const CudnnTarget& target, const ConvProblem& p,
                                          bool with_bias, std::size_t budget) {
  const Graph graph = graph_of(target, p, with_bias);
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& c : configurations(target, graph, mode))
      if (acceptable(c, p.precision))
        if (auto plan = built(target, c, budget)) return plan;
  return std::nullopt;
}

[[noreturn]] void fail(const ConvProblem& p, const std::string& found) {
  throw DeviceError(ErrorText{.what = "cuDNN cannot run " + text(p), .found = found});
}

}  // namespace

ConvPlan plan_convolution(const CudnnTarget& target, const ConvProblem& p, std::size_t budget) {
  try {
    ConvPlan plan{.problem = p};
    std::optional<CudnnDescriptor> own;
    const bool bias = p.pass == ConvPass::forward && p.shape.bias != 0;
    if (bias && p.precision != Precision::bf16) own = first_plan(target, p, true, budget);
    plan.adds_bias = own.has_value();
    if (!own) own = first_plan(target, p, false, budget);
    if (!own)
      fail(p, "no deterministic engine within " + std::to_string(budget) + " bytes of workspace");
    plan.workspace =
        static_cast<std::size_t>(own->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    plan.own = std::make_shared<CudnnDescriptor>(std::move(*own));
    return plan;
  } catch (const CudnnRefusal& refusal) {
    fail(p, refusal.text);
  }
}

}  // namespace belfry
