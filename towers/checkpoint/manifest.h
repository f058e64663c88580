// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "belfry/data/data_record.h"
#include "belfry/towers/group_state.h"
#include "belfry/towers/hook.h"

namespace belfry {

inline constexpr std::int64_t kCheckpointFormat = 1;

struct FileRecord {
  std::string name;
  std::uint64_t size = 0;
  std::string checksum;  // XXH3, 16 hex digits
};

// What a trainer keeps besides the group: where it was in the data, and its hooks.
struct RunState {
  std::int64_t position = 0;  // rows handed out by the loader
  std::int64_t attempts = 0;
  std::int64_t rows = 0;
  std::int64_t batch = 0;  // rows of one update, over all towers; 0: unknown
  std::string config{};    // the effective config
  std::map<std::string, HookState> hooks{};
  DataRecord data{};  // what was trained on; rows 0: unknown
};

// manifest.json: everything of a checkpoint that is not a tensor, and the files with their
// checksums. Unknown fields are ignored.
struct Manifest {
  std::int64_t format = kCheckpointFormat;
  std::map<std::string, std::string> versions;  // of the libraries; the instruction set
  std::string rule;                             // "momentum"
  std::uint64_t seed = 0;
  std::int64_t towers = 1;
  std::int64_t threads_per_tower = 1;
  std::int64_t virtual_shards = 0;  // with reduce = "strict"; 0: another mode
  GroupClocks clocks;
  RunState run;
  std::vector<FileRecord> files;

  std::string text() const;
  // A JSON object with its own checksum added or renewed; what changes a manifest by hand ends
  // with it. Throws CheckpointError for other text.
  static std::string sealed(const std::string& json_text);
  // Throws CheckpointError naming `path`, also for another format version.
  static Manifest parse(const std::string& text, const std::string& path);
};

std::map<std::string, std::string> library_versions();

}  // namespace belfry
