// SPDX-License-Identifier: MIT
// A model from given weights along given rows, for a comparison with another library. CONFIG is a
// training config; weights have the names of its variables and states. Batches of [data] in order.
//   bench_follow CONFIG.toml WEIGHTS.safetensors OUT.safetensors UPDATES
// trains: prints each update's loss and writes the weights.
//   bench_follow --gradients CONFIG.toml WEIGHTS_FOLDER OUT_FOLDER UPDATES
// takes the weights of each update k, from 0, from WEIGHTS_FOLDER/k.safetensors, prints its loss
// and writes the averaged gradient and the states behind it to OUT_FOLDER/k.safetensors.
#include <cstdio>
#include <cstdlib>

#include "belfry/core/document.h"
#include "belfry/core/error.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/core/registry.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

// Every parameter, and of the states those that the file has.
void load(TowerGroupBase& group, const std::string& path) {
  const safetensors::Reader file(path);
  std::vector<GroupArray> given;
  for (GroupArray& array : group.arrays()) {
    const bool state = array.kind == kStateKind && file.find(array.variable) != nullptr;
    if (array.kind != "parameter" && !state) continue;
    const safetensors::Entry& entry = file.at(array.variable);
    if (entry.shape != array.shape.extents())
      throw CheckpointError(ErrorText{.what = path + ": '" + array.variable + "'",
                                      .found = safetensors::shape_text(entry.shape),
                                      .expected = array.shape.text()});
    file.read(entry, std::as_writable_bytes(std::span(array.values)));
    given.push_back(std::move(array));
  }
  group.set_arrays(given);
}

void save(const std::vector<GroupArray>& arrays, const std::string& path) {
  std::vector<safetensors::Tensor> tensors;
  for (const GroupArray& a : arrays)
    tensors.push_back({a.variable, "F32", a.shape.extents(), std::as_bytes(std::span(a.values))});
  const std::vector<std::byte> bytes = safetensors::encode(tensors);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fclose(file) != 0)
    throw ConfigError("cannot write " + path);
}

// The group's arrays of one kind.
std::vector<GroupArray> arrays_of(TowerGroupBase& group, const std::string& kind) {
  std::vector<GroupArray> out;
  for (GroupArray& a : group.arrays())
    if (a.kind == kind) out.push_back(std::move(a));
  return out;
}

struct Arguments {
  std::string config, weights, out;
  std::int64_t updates = 0;
  bool gradients = false;
};

void follow(const Arguments& given) {
  const Registry registry = builtin();
  TrainSession session(TrainConfig::load(Document::from_file(given.config), registry), Log());
  TowerGroupBase& group = session.group();
  const LossFn loss = session.loss(session.config().data);
  if (!given.gradients) load(group, given.weights);
  Batch batch;
  for (std::int64_t k = 0; k < given.updates && session.loader().next(batch); ++k) {
    const std::string name = "/" + std::to_string(k) + ".safetensors";
    std::vector<GroupArray> seen;
    if (given.gradients) {
      load(group, given.weights + name);
      seen = group.averaged(batch, loss);
    }
    std::printf("%.9g\n", group.step(batch, loss).loss());
    if (!given.gradients) continue;
    for (GroupArray& state : arrays_of(group, kStateKind)) seen.push_back(std::move(state));
    save(seen, given.out + name);
  }
  if (!given.gradients) save(arrays_of(group, "parameter"), given.out);
}

}  // namespace
}  // namespace belfry

int main(int argc, char** argv) {
  const bool gradients = argc > 1 && std::string(argv[1]) == "--gradients";
  if (gradients) --argc, ++argv;
  if (argc != 5) {
    std::fprintf(stderr,
                 "bench_follow CONFIG.toml WEIGHTS.safetensors OUT.safetensors UPDATES\n"
                 "bench_follow --gradients CONFIG.toml WEIGHTS_FOLDER OUT_FOLDER UPDATES\n");
    return 2;
  }
  try {
    belfry::follow({argv[1], argv[2], argv[3], std::atoll(argv[4]), gradients});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
