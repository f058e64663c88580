// SPDX-License-Identifier: MIT
#include "belfry/bench/common/net_plan.h"

#include "belfry/allreduce/flat_index.h"
#include "belfry/allreduce/fold_types.h"
#include "belfry/core/document.h"
#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/towers/model.h"

namespace belfry::bench {
namespace {

struct Net {
  std::string model, keys;  // of the registry, and its [model] keys
  Shape row;
  std::int64_t classes;
  int states;  // of its usual optimizer
};

Net net_of(const std::string& name) {
  if (name == "mlp") return {"mlp", "", {28, 28, 1}, 10, 1};
  if (name == "lenet") return {"lenet", "", {28, 28, 1}, 10, 1};
  if (name == "resnet50") return {"resnet50", "", {224, 224, 3}, 1000, 1};
  if (name == "gpt") return {"gpt", "layers = 12\nwidth = 768\nheads = 12\n", {1024}, 50257, 2};
  throw ConfigError(ErrorText{.what = "no plan of this model",
                              .found = "'" + name + "'",
                              .expected = "mlp, lenet, resnet50 or gpt"});
}

// At how many places of a row a weight is used: pixels of a convolution's result, positions.
double places(const std::string& net, const std::string& variable) {
  const auto in = [&](const char* part) { return variable.find(part) != std::string::npos; };
  if (net == "gpt") return 1024;
  if (net == "lenet") return in("conv1") ? 28 * 28 : in("conv2") ? 10 * 10 : 1;
  if (net != "resnet50") return 1;
  if (variable.starts_with("conv1")) return 112 * 112;
  // The first block of a stage still has the larger images before its second convolution.
  const bool before = in(".0.conv1");
  if (in("layer1")) return 56 * 56;
  if (in("layer2")) return before ? 56 * 56 : 28 * 28;
  if (in("layer3")) return before ? 28 * 28 : 14 * 14;
  if (in("layer4")) return before ? 14 * 14 : 7 * 7;
  return 1;
}

// Multiply-adds of a row with a variable: weights alone count. Tables are read, not multiplied.
double work_of(const std::string& net, const FlatVariable& v) {
  if (v.shape.rank() < 2 || v.name.starts_with("positions") || v.name.starts_with("tokens"))
    return 0;
  return static_cast<double>(v.shape.size()) * places(net, v.name);
}

// Of a causal attention, 2 x positions^2 x width / 2 a layer; of the tied head.
struct Extra {
  double attention = 0, head = 0;
};

Extra extra_of(const std::string& net) {
  if (net != "gpt") return {};
  return {12.0 * 1024 * 1024 * 768, 1024.0 * 50257 * 768};
}

}  // namespace

NetPlan net_plan(const std::string& name) {
  const Net net = net_of(name);
  const auto factory = builtin().table<ModelEntry>().at(net.model, "model").make();
  Document document = Document::from_text("[model]\n" + net.keys, "bench");
  Schema keys;
  factory->declare(keys);
  document.bind("model", keys);
  const auto module = factory->build(net.row, net.classes);
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  for (const Variable* v : module->variables()) {
    names.push_back(v->name());
    shapes.push_back(v->shape());
  }
  const FlatIndex index(names, shapes);
  const Extra extra = extra_of(name);
  double total = extra.attention + extra.head;
  for (const FlatVariable& v : index.variables()) total += work_of(name, v);
  const double blocks_work = total - extra.head;  // attention goes with the weights around it
  const double weights = blocks_work - extra.attention;
  NetPlan out{
      .name = name,
      .parameters = static_cast<double>(index.parameters()),
      .statistics_bytes = static_cast<double>(index.segments().size() * sizeof(SegmentStats)),
      .states = net.states,
      .forward_flops = 2 * total};
  // The head's work comes first in backward and last in forward.
  double done = extra.head;
  std::size_t next = 0;
  for (const Bucket& bucket : plan_buckets(index.blocks())) {
    const std::size_t end = (bucket.first + bucket.blocks) * kBlock;
    double here = out.buckets.empty() ? extra.head : 0;
    // A variable across two buckets counts for that of its end.
    for (; next < index.variables().size(); ++next) {
      const FlatVariable& v = index.variables()[next];
      if (v.offset + v.size > end) break;
      const double work = work_of(name, v) * blocks_work / weights;
      done += work;
      here += work;
    }
    // A gradient that goes on behind the bucket is whole before any of it can go.
    double ready = done;
    if (next < index.variables().size() && index.variables()[next].offset < end)
      ready += work_of(name, index.variables()[next]) * blocks_work / weights;
    out.buckets.push_back(
        {static_cast<double>(bucket.blocks * kBlock * sizeof(float)), ready / total, here / total});
  }
  return out;
}

}  // namespace belfry::bench
