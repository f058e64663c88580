// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "belfry/core/checksum.h"
#include "belfry/core/formats/safetensors.h"

namespace belfry {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kManifestFile = "manifest.json";
constexpr std::uint64_t kLargestManifest = std::uint64_t{64} << 20;

// "hidden.weight" for a parameter, "velocity/hidden.weight" for state.
std::string tensor_name(const GroupArray& a) {
  return a.kind == "parameter" ? a.variable : a.kind + "/" + a.variable;
}

// Writes one file and records its size and checksum on the way.
FileRecord write_tensors(AtomicDirectory& folder, const std::string& name,
                         const std::vector<const GroupArray*>& arrays) {
  std::vector<safetensors::Tensor> tensors;
  for (const GroupArray* a : arrays)
    tensors.push_back(
        {tensor_name(*a), "F32", a->shape.extents(), std::as_bytes(std::span(a->values))});
  FileWriter file = folder.file(name);
  Checksum sum;
  FileRecord record{name, 0, ""};
  const auto put = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    sum.update(bytes);
    record.size += bytes.size();
  };
  const std::string header = safetensors::encode_header(tensors, {{"format", "belfry"}});
  put(std::as_bytes(std::span(header)));
  for (const safetensors::Tensor& t : tensors) put(t.bytes);
  file.finish();
  record.checksum = sum.hex();
  return record;
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  if (!std::filesystem::is_directory(folder))
    throw CheckpointError(ErrorText{.what = "not a checkpoint of this program",
                                    .found = std::filesystem::exists(folder) ? "a file" : "nothing",
                                    .expected = std::string("a folder with ") + kManifestFile,
                                    .file = folder});
  if (!std::filesystem::exists(path))
    throw CheckpointError(ErrorText{.what = "not a checkpoint of this program",
                                    .found = std::string("no ") + kManifestFile,
                                    .file = folder});
  const std::vector<std::byte> bytes = read_file(path, kLargestManifest);
  return Manifest::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

void verify_file(const std::string& folder, const FileRecord& record) {
  const std::string path = folder + "/" + record.name;
  if (record.name.find('/') != std::string::npos)
    throw CheckpointError(ErrorText{.what = "the manifest is damaged",
                                    .found = "file name '" + record.name + "'",
                                    .file = folder});
  const InputFile file(path);
  if (file.size() != record.size)
    throw CheckpointError(
        ErrorText{.what = "the checkpoint is damaged",
                  .found = std::to_string(file.size()) + " bytes",
                  .expected = std::to_string(record.size),
                  .fix = "resume from another checkpoint, or set checkpoint.fallback = true",
                  .file = path});
  Checksum sum;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    const std::span<std::byte> part(piece.data(),
                                    std::min<std::uint64_t>(piece.size(), file.size() - at));
    file.read_at(at, part);
    sum.update(part);
  }
  if (sum.hex() != record.checksum)
    throw CheckpointError(
        ErrorText{.what = "the checkpoint is damaged",
                  .found = "checksum " + sum.hex(),
                  .expected = record.checksum,
                  .fix = "resume from another checkpoint, or set checkpoint.fallback = true",
                  .file = path});
}

// The file's tensors laid over the group's arrays, and what does not fit.
class Matching {
 public:
  Matching(std::vector<GroupArray> arrays, const LoadOptions& options)
      : arrays_(std::move(arrays)), options_(options) {}

  void rules(const std::string& saved, const std::string& here) {
    same_rule_ = saved == here;
    if (!same_rule_ && options_.optimizer)
      note("optimizer: '" + saved + "' in the checkpoint, '" + here + "' here");
  }
  void take(const std::string& path, bool parameters);
  const std::vector<std::string>& differences() const { return differences_; }
  const std::vector<GroupArray>& arrays() const { return arrays_; }

 private:
  void note(std::string text) { differences_.push_back(std::move(text)); }
  bool wanted(const GroupArray& a, bool parameters) const {
    if ((a.kind == "parameter") != parameters) return false;
    return parameters || a.kind == "ema" || (options_.optimizer && same_rule_);
  }

  std::vector<GroupArray> arrays_;
  LoadOptions options_;
  std::vector<std::string> differences_;
  bool same_rule_ = true;
};

void Matching::take(const std::string& path, bool parameters) {
  const safetensors::Reader reader(path);
  const std::string what = parameters ? "variable '" : "optimizer state '";
  std::set<std::string> known;
  for (GroupArray& a : arrays_) {
    if (!wanted(a, parameters)) continue;
    const std::string name = tensor_name(a);
    known.insert(name);
    const safetensors::Entry* entry = reader.find(name);
    if (entry == nullptr) {
      note(what + name + "' " + a.shape.text() + " is not in the checkpoint");
    } else if (entry->shape != a.shape.extents()) {
      note(what + name + "': " + Shape(entry->shape).text() + " in the checkpoint, " +
           a.shape.text() + " here");
    } else if (entry->dtype != "F32") {
      note(what + name + "': type " + entry->dtype + " in the checkpoint, F32 here");
    } else {
      reader.read(*entry, std::as_writable_bytes(std::span(a.values)));
    }
  }
  const bool strict = parameters || (options_.optimizer && same_rule_);
  for (const safetensors::Entry& e : reader.entries())
    if (strict && !known.contains(e.name)) note(what + e.name + "' is in the checkpoint only");
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  return out;
}

// The clocks of variables this model has.
GroupClocks clocks_for(TowerGroupBase& group, GroupClocks saved) {
  std::map<std::string, std::int64_t> by_name(saved.steps.begin(), saved.steps.end());
  saved.steps.clear();
  for (const std::string& v : group.variable_names())
    if (const auto found = by_name.find(v); found != by_name.end())
      saved.steps.emplace_back(*found);
  return saved;
}

}  // namespace

Checkpoint::Checkpoint(std::string path, TowerGroupBase& group, FileOps& files)
    : path_(std::move(path)), group_(group), files_(files) {}

void Checkpoint::save(const RunState& run) {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  std::error_code ignored;  // a folder that cannot be made fails below with the path
  if (!parent.empty()) std::filesystem::create_directories(parent, ignored);
  const std::vector<GroupArray> arrays = group_.arrays();
  std::vector<const GroupArray*> model, optimizer;
  for (const GroupArray& a : arrays) (a.kind == "parameter" ? model : optimizer).push_back(&a);
  AtomicDirectory folder(path_, files_);
  Manifest manifest;
  manifest.files.push_back(write_tensors(folder, kModelFile, model));
  manifest.files.push_back(write_tensors(folder, kOptimizerFile, optimizer));
  manifest.versions = library_versions();
  manifest.rule = group_.optimizer().rule->name();
  manifest.seed = group_.context().seed();
  manifest.towers = group_.context().towers();
  manifest.threads_per_tower = group_.context().options().threads_per_tower;
  manifest.clocks = group_.clocks();
  manifest.run = run;
  folder.write(kManifestFile, manifest.text());
  folder.commit(true);
}

Manifest verify_checkpoint(const std::string& path) {
  Manifest out = read_manifest(path);
  for (const char* name : {kModelFile, kOptimizerFile})
    if (std::none_of(out.files.begin(), out.files.end(),
                     [name](const FileRecord& f) { return f.name == name; }))
      throw CheckpointError(ErrorText{
          .what = "the manifest is damaged", .found = std::string("no ") + name, .file = path});
  for (const FileRecord& f : out.files) verify_file(path, f);
  return out;
}

Manifest Checkpoint::load(const LoadOptions& options) {
  Manifest manifest = verify_checkpoint(path_);
  Matching matching(group_.arrays(), options);
  const std::string rule = group_.optimizer().rule->name();
  matching.rules(manifest.rule, rule);
  matching.take(path_ + "/" + kModelFile, true);
  matching.take(path_ + "/" + kOptimizerFile, false);
  const std::vector<std::string>& differences = matching.differences();
  if (!differences.empty() && !options.partial)
    throw CheckpointError(
        ErrorText{.what = "the checkpoint does not fit: " + joined(differences),
                  .fix = "use the model and optimizer it was saved with, or ask for a partial load",
                  .file = path_});
  for (const std::string& line : differences)
    group_.context().logger().warn("partial load: {}", line);
  group_.set_arrays(matching.arrays());
  if (options.optimizer) group_.set_clocks(clocks_for(group_, manifest.clocks));
  return manifest;
}

}  // namespace belfry
