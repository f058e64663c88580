// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/core/formats/safetensors.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/row_keys.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"

namespace belfry {
namespace {

std::string norm_text(const safetensors::Reader& reader, const safetensors::Entry& entry) {
  if (entry.dtype != "F32") return "";
  const std::vector<std::byte> bytes = reader.read(entry);
  double sum = 0;
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, 4);
    sum += double{value} * double{value};
  }
  return fmt::format("norm {:.6g}", std::sqrt(sum));
}

safetensors::Reader open_tensors(const std::string& path) {
  try {
    return safetensors::Reader(path);
  } catch (const CheckpointError&) {
    if (std::filesystem::path(path).extension() == ".safetensors") throw;
    throw CheckpointError(ErrorText{.what = "not a .safetensors file",
                                    .fix = "name a checkpoint, a folder of them or such a file",
                                    .file = path});
  }
}

void print_tensors(CliContext& context, const std::string& path) {
  const safetensors::Reader reader = open_tensors(path);
  context.print("{}: {}\n", path,
                count_text(static_cast<std::int64_t>(reader.entries().size()), "tensor"));
  for (const safetensors::Entry& e : reader.entries())
    context.print("  {:<32} {:<5} {:<20} {}\n", e.name, e.dtype, safetensors::shape_text(e.shape),
                  norm_text(reader, e));
}

void print_manifest(CliContext& context, const std::string& path, const Manifest& m) {
  context.print("{}: format {}, all checksums right\n", path, m.format);
  context.print("  update {}, {} trained, position {}, optimizer {}, seed {}\n", m.clocks.update,
                count_text(m.clocks.rows, "row"), count_text(m.run.position, "row"), m.rule,
                m.seed);
  context.print("  written by {} x {}, global batch {}\n", count_text(m.towers, "tower"),
                count_text(m.threads_per_tower, "thread"), m.run.batch);
  if (m.run.data.rows > 0) context.print("  data {}\n", recorded_data(m.run.data)->describe());
  if (!m.run.data.row_keys.empty())
    context.print("  rows with {}\n", row_keys_text(m.run.data.row_keys));
  for (const auto& [name, version] : m.versions) context.print("  {} {}\n", name, version);
  for (const auto& [hook, state] : m.run.hooks)
    for (const auto& [key, value] : state) context.print("  {}.{} = {}\n", hook, key, value);
  for (const FileRecord& f : m.files) print_tensors(context, path + "/" + f.name);
}

int inspect(CliContext& context, const std::string& path) {
  require_path(path);
  if (std::filesystem::is_regular_file(path)) {
    print_tensors(context, path);
    return kExitOk;
  }
  const std::string found = find_checkpoint(path, false, context.log);
  print_manifest(context, found, verify_checkpoint(found));
  return kExitOk;
}

}  // namespace

void require_path(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw CheckpointError(ErrorText{.what = path + " does not exist"});
}

void require_checkpoint(const std::string& path, bool output_folder) {
  if (!output_folder) return require_path(path);
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (there && (!found_checkpoints(path).empty() ||
                std::filesystem::exists(std::filesystem::path(path) / "manifest.json", code)))
    return;
  throw CheckpointError(
      ErrorText{.what = path + (there ? " holds no checkpoint" : " does not exist") +
                        ": it is the config's output folder, where the checkpoint "
                        "is looked for",
                .fix = "train first, or give --checkpoint PATH"});
}

void add_inspect(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command =
      app.add_subcommand("inspect", "show a checkpoint or a safetensors file");
  const auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "checkpoint, folder of checkpoints, or .safetensors file")
      ->required();
  command->callback([&context, &code, path] { code = inspect(context, *path); });
}

}  // namespace belfry
