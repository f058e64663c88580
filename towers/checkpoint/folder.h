// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/core/atomic_file.h"
#include "belfry/core/log.h"

namespace belfry {

// `folder`/step_<update>.
std::string checkpoint_path(const std::string& folder, std::int64_t update);

// The updates that step_<update> folders exist of, in order of number; one without a manifest is a
// damaged checkpoint, or somebody's own folder. Other names do not count.
std::vector<std::int64_t> list_checkpoints(const std::string& folder);

// The path of the newest checkpoint, checked. A damaged one is a CheckpointError, or with
// `fallback` a warning and the next older one. "" when there is none.
std::string newest_checkpoint(const std::string& folder, bool fallback, const Log& log);

// `path` itself when it is a checkpoint, else the newest one in it. Throws CheckpointError.
std::string find_checkpoint(const std::string& path, bool fallback, const Log& log);

// Removes all but the newest `keep` of those up to update `saved`; later ones stay.
void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t saved,
                       FileOps& files = system_files());

// Renames checkpoints later than update `saved` to step_<update>.left, which no listing counts: a
// run that was resumed before them has taken another way. Throws CheckpointError.
void leave_checkpoints(const std::string& folder, std::int64_t saved, const Log& log,
                       FileOps& files = system_files());

// Removes what killed saves left, `*.tmp-*`, and takes back a folder that one had moved aside. Call
// it under the folder's lock.
void clean_checkpoints(const std::string& folder, const Log& log, FileOps& files = system_files());

// Holds a run's output folder, so that two jobs cannot write into one. Creates it. Throws
// ConfigError naming the folder while another process, or another lock of this one, holds it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder, FileOps& files = system_files());
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace belfry
