// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "belfry/core/checksum.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/towers/background.h"
#include "belfry/towers/checkpoint/folder.h"

namespace belfry {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kManifestFile = "manifest.json";
constexpr std::uint64_t kLargestManifest = std::uint64_t{64} << 20;

// Whether it is the model's: a parameter or a state of a module; else the optimizer's.
template <class Array>
bool of_model(const Array& a) {
  return a.kind == "parameter" || a.kind == kStateKind;
}

// "hidden.weight" for a parameter, "bn.running_mean" for a state, "velocity/hidden.weight" for
// state of the optimizer.
template <class Array>
std::string tensor_name(const Array& a) {
  return of_model(a) ? a.variable : a.kind + "/" + a.variable;
}

// Writes one file and records its size and checksum on the way.
FileRecord write_tensors(AtomicDirectory& folder, const std::string& name,
                         const std::vector<const GroupCopy::Array*>& arrays) {
  std::vector<safetensors::Tensor> tensors;
  for (const GroupCopy::Array* a : arrays)
    tensors.push_back({tensor_name(*a), "F32", a->shape.extents(), std::as_bytes(a->values)});
  FileWriter file = folder.file(name);
  Checksum sum;
  FileRecord record{name, 0, ""};
  const auto put = [&](std::span<const std::byte> bytes) {
    record.size += bytes.size();
    constexpr std::size_t kPiece = std::size_t{256} << 10;  // in cache for the second of the two
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kPiece, bytes.size()))) {
      const auto piece = bytes.first(std::min(kPiece, bytes.size()));
      sum.update(piece);
      file.write(piece);
    }
  };
  const std::string header = safetensors::encode_header(tensors, {{"format", "belfry"}});
  put(std::as_bytes(std::span(header)));
  for (const safetensors::Tensor& t : tensors) put(t.bytes);
  file.finish();
  record.checksum = sum.hex();
  return record;
}

void verify_file(const std::string& folder, const FileRecord& record) {
  const std::string path = folder + "/" + record.name;
  if (record.name.find('/') != std::string::npos)
    throw CheckpointError(ErrorText{.what = "the manifest is damaged",
                                    .found = "file name '" + record.name + "'",
                                    .file = folder});
  const InputFile file(path);
  if (file.size() != record.size)
    throw CheckpointError(ErrorText{.what = "the checkpoint is damaged",
                                    .found = std::to_string(file.size()) + " bytes",
                                    .expected = std::to_string(record.size),
                                    .fix = "resume from another checkpoint",
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
    throw CheckpointError(ErrorText{.what = "the checkpoint is damaged",
                                    .found = "checksum " + sum.hex(),
                                    .expected = record.checksum,
                                    .fix = "resume from another checkpoint",
                                    .file = path});
}

// The file's tensors laid over the group's arrays, and what does not fit.
class Matching {
 public:
  Matching(std::vector<GroupArray> arrays, const LoadOptions& options)
      : arrays_(std::move(arrays)), loaded_(arrays_.size()), options_(options) {}

  void rules(const std::string& saved, const std::string& here) {
    same_rule_ = saved == here;
    if (!same_rule_ && options_.optimizer)
      note("optimizer: '" + saved + "' in the checkpoint, '" + here + "' here");
  }
  void take(const std::string& path, bool parameters);
  const std::vector<std::string>& differences() const { return differences_; }
  std::vector<GroupArray> arrays() const;
  GroupClocks clocks(GroupClocks saved) const;

 private:
  void note(std::string text) { differences_.push_back(std::move(text)); }
  bool wanted(const GroupArray& a, bool parameters) const {
    if (of_model(a) != parameters) return false;
    if (a.kind == "ema") return options_.optimizer || options_.ema;
    return parameters || (options_.optimizer && same_rule_);
  }
  bool state(const GroupArray& a) const { return !of_model(a) && a.kind != "ema"; }
  bool complete(const std::string& variable) const;

  std::vector<GroupArray> arrays_;
  std::vector<bool> loaded_;  // of each array
  LoadOptions options_;
  std::vector<std::string> differences_;
  bool same_rule_ = true;
};

void Matching::take(const std::string& path, bool parameters) {
  const safetensors::Reader reader(path);
  const auto what = [parameters](const GroupArray& a) {
    return std::string(!parameters            ? "optimizer state '"
                       : a.kind == kStateKind ? "state '"
                                              : "variable '");
  };
  std::set<std::string> known;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    GroupArray& a = arrays_[i];
    if (!wanted(a, parameters)) continue;
    const std::string name = tensor_name(a);
    known.insert(name);
    const safetensors::Entry* entry = reader.find(name);
    if (entry == nullptr) {
      note(what(a) + name + "' " + a.shape.text() + " is not in the checkpoint");
    } else if (entry->shape != a.shape.extents()) {
      note(what(a) + name + "': " + safetensors::shape_text(entry->shape) + " in the checkpoint, " +
           a.shape.text() + " here");
    } else if (entry->dtype != "F32") {
      note(what(a) + name + "': type " + entry->dtype + " in the checkpoint, F32 here");
    } else {
      reader.read(*entry, std::as_writable_bytes(std::span(a.values)));
      loaded_[i] = true;
    }
  }
  const bool strict = parameters || (options_.optimizer && same_rule_);
  for (const safetensors::Entry& e : reader.entries())
    if (strict && !known.contains(e.name))
      note((parameters ? "variable '" : "optimizer state '") + e.name +
           "' is in the checkpoint only");
}

// Whether the variable has the checkpoint's parameter and all of its state.
bool Matching::complete(const std::string& variable) const {
  if (!same_rule_) return false;
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i].variable == variable && arrays_[i].kind != "ema" && !loaded_[i]) return false;
  return true;
}

// What the group gets: what was loaded, and zeros as state that belongs to no count of steps. An
// average that is not in the checkpoint is left out: it starts at the parameter.
std::vector<GroupArray> Matching::arrays() const {
  std::vector<GroupArray> out;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const bool anew = options_.optimizer && state(arrays_[i]) && !complete(arrays_[i].variable);
    if (!loaded_[i] && !anew) continue;
    out.push_back(arrays_[i]);
    if (anew) std::fill(out.back().values.begin(), out.back().values.end(), 0.f);
  }
  return out;
}

// The clocks of the variables this model has: a count without its state would mislead the rule.
GroupClocks Matching::clocks(GroupClocks saved) const {
  const std::map<std::string, std::int64_t> by_name(saved.steps.begin(), saved.steps.end());
  saved.steps.clear();
  for (const GroupArray& a : arrays_) {
    if (a.kind != "parameter") continue;
    const auto found = by_name.find(a.variable);
    const bool known = found != by_name.end() && complete(a.variable);
    saved.steps.emplace_back(a.variable, known ? found->second : 0);
  }
  return saved;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  return out;
}

// Only a checkpoint, or an empty folder, may be replaced.
void refuse_foreign(const std::string& path) {
  std::error_code status;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, status))) return;
  const bool folder =
      std::filesystem::is_directory(path, status) && !std::filesystem::is_symlink(path, status);
  if (folder && std::filesystem::is_empty(path, status)) return;
  if (folder && std::filesystem::exists(path + "/" + kManifestFile, status)) {
    read_manifest(path);
    return;
  }
  throw CheckpointError(
      ErrorText{.what = "cannot save a checkpoint here",
                .found = folder ? "a folder that is no checkpoint" : "something that is no folder",
                .expected = "nothing, an empty folder or a checkpoint",
                .fix = "nothing was changed; use another path",
                .file = path});
}

// What a checkpoint holds, in host memory: taken between two updates, written whenever.
struct Snapshot {
  GroupCopy copy;
  Manifest manifest;  // without files
};

std::shared_ptr<const Snapshot> take_snapshot(TowerGroupBase& group, const RunState& run,
                                              bool in_place) {
  const auto out = std::make_shared<Snapshot>();
  out->copy = group.copy_arrays(in_place);
  Manifest& manifest = out->manifest;
  manifest.versions = library_versions();
  manifest.versions["precision"] = name_of(group.context().options().precision);
  manifest.rule = group.optimizer().rule->name();
  manifest.seed = group.context().seed();
  manifest.towers = group.context().towers();
  manifest.threads_per_tower = group.context().device(0).threads();
  const Optimizer& o = group.optimizer();
  manifest.virtual_shards = o.reduce == ReduceMode::strict ? o.virtual_shards : 0;
  manifest.clocks = group.clocks();
  manifest.run = run;
  return out;
}

void write_snapshot(const std::string& path, const std::shared_ptr<const Snapshot>& snapshot,
                    FileOps& files) {
  make_directories(std::filesystem::path(path).parent_path().string(), files);
  std::vector<const GroupCopy::Array*> model, optimizer;
  for (const GroupCopy::Array& a : snapshot->copy.arrays)
    (of_model(a) ? model : optimizer).push_back(&a);
  AtomicDirectory folder(path, files);
  Manifest manifest = snapshot->manifest;
  manifest.files.push_back(write_tensors(folder, kModelFile, model));
  manifest.files.push_back(write_tensors(folder, kOptimizerFile, optimizer));
  folder.write(kManifestFile, manifest.text());
  folder.commit(true);
}

}  // namespace

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  std::error_code status;
  const auto found = [&status](const std::string& otherwise) {
    return status ? status.message() : otherwise;
  };
  if (!std::filesystem::is_directory(folder, status)) {
    const bool file = std::filesystem::exists(folder, status);
    throw CheckpointError(ErrorText{.what = "not a checkpoint of this program",
                                    .found = found(file ? "a file" : "nothing"),
                                    .expected = std::string("a folder with ") + kManifestFile,
                                    .file = folder});
  }
  if (!std::filesystem::exists(path, status))
    throw CheckpointError(ErrorText{.what = "not a checkpoint of this program",
                                    .found = found(std::string("no ") + kManifestFile),
                                    .file = folder});
  const std::vector<std::byte> bytes = read_file(path, kLargestManifest);
  return Manifest::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

Checkpoint::Checkpoint(std::string path, TowerGroupBase& group, FileOps& files)
    : path_(std::move(path)), group_(group), files_(files) {
  if (path_.empty())
    throw ConfigError(ErrorText{.what = "path of a checkpoint",
                                .found = "an empty one",
                                .expected = "a folder, to be made or replaced"});
}

void Checkpoint::save(const RunState& run) {
  group_.background().wait();  // it may be replacing this very folder
  refuse_foreign(path_);
  write_snapshot(path_, take_snapshot(group_, run, true), files_);
}

void Checkpoint::save_async(const RunState& run, std::function<void()> then) {
  group_.background().wait();  // it may be replacing this very folder
  refuse_foreign(path_);
  group_.background().start([path = path_, then = std::move(then), &files = files_,
                             snapshot = take_snapshot(group_, run, false)] {
    write_snapshot(path, snapshot, files);
    if (then) then();
  });
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
  group_.background().wait();  // a save under way comes first
  const std::string path = standing_checkpoint(path_);
  if (path != path_)
    group_.context().logger().warn("{}: a save was not finished; loading {}", path_, path);
  Manifest manifest = verify_checkpoint(path);
  Matching matching(group_.arrays(), options);
  const std::string rule = group_.optimizer().rule->name();
  matching.rules(manifest.rule, rule);
  matching.take(path + "/" + kModelFile, true);
  matching.take(path + "/" + kOptimizerFile, false);
  const std::vector<std::string>& differences = matching.differences();
  if (!differences.empty() && !options.partial)
    throw CheckpointError(ErrorText{
        .what = "the checkpoint does not fit: " + joined(differences),
        .fix = options.optimizer ? "use the model and optimizer it was saved with, or ask for a "
                                   "partial load (--partial)"
                                 : "use the model it was saved with: its manifest.json holds the "
                                   "config",
        .file = path_});
  for (const std::string& line : differences)
    group_.context().logger().warn("partial load: {}", line);
  // The clocks first: they may still be refused, and then nothing may have changed.
  if (options.optimizer) group_.set_clocks(matching.clocks(manifest.clocks));
  group_.set_arrays(matching.arrays());
  return manifest;
}

}  // namespace belfry
