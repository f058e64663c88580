// SPDX-License-Identifier: MIT
// A gpt from given weights along given tokens, for a comparison with another library:
//   bench_follow CONFIG.toml WEIGHTS.safetensors OUT.safetensors UPDATES
// CONFIG is a training config of model gpt; the weights have its variables' names. Trains UPDATES
// batches of [data] in order, prints each update's loss, and writes the weights.
#include <cstdio>
#include <cstdlib>

#include "belfry/core/document.h"
#include "belfry/core/error.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/core/registry.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

void load(TowerGroupBase& group, const std::string& path) {
  const safetensors::Reader file(path);
  for (const std::string& name : group.variable_names()) {
    const safetensors::Entry& entry = file.at(name);
    std::vector<float> values(group.parameter(name).size());
    file.read(entry, std::as_writable_bytes(std::span(values)));
    group.set_parameter(name, values);
  }
}

void save(TowerGroupBase& group, const std::string& path) {
  std::vector<std::vector<float>> values;
  std::vector<safetensors::Tensor> tensors;
  for (const FlatVariable& v : group.index().variables()) {
    values.push_back(group.parameter(v.name));
    tensors.push_back({v.name, "F32", v.shape.extents(), {}});
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    tensors[i].bytes = std::as_bytes(std::span(values[i]));
  const std::vector<std::byte> bytes = safetensors::encode(tensors);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fclose(file) != 0)
    throw ConfigError("cannot write " + path);
}

void follow(const std::string& config, const std::string& weights, const std::string& out,
            std::int64_t updates) {
  const Registry registry = builtin();
  TrainSession session(TrainConfig::load(Document::from_file(config), registry), Log());
  load(session.group(), weights);
  const LossFn loss = session.loss(session.config().data);
  Batch batch;
  for (std::int64_t k = 0; k < updates && session.loader().next(batch); ++k)
    std::printf("%.9g\n", session.group().step(batch, loss).loss());
  save(session.group(), out);
}

}  // namespace
}  // namespace belfry

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "bench_follow CONFIG.toml WEIGHTS.safetensors OUT.safetensors UPDATES\n");
    return 2;
  }
  try {
    belfry::follow(argv[1], argv[2], argv[3], std::atoll(argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
