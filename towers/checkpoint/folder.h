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

// A folder step_*, also a renamed or copied one.
struct FoundCheckpoint {
  std::string path;
  std::int64_t update = 0;  // as its manifest says; of the name where that cannot be read
  std::string damage;       // of the manifest, "" for none
  bool own = false;         // named step_<update>, with a manifest: what a run may remove
};
// Oldest first by update; of equal ones the own one last. What is put aside or unfinished (.left,
// .tmp-) does not count.
std::vector<FoundCheckpoint> found_checkpoints(const std::string& folder);

// `path`, or where an interrupted replacement left the content that was there.
std::string standing_checkpoint(const std::string& path);

// The path of the newest checkpoint by content, checked. A damaged one is a CheckpointError, or
// with `fallback` a warning and the next older one. "" when there is none.
std::string newest_checkpoint(const std::string& folder, bool fallback, const Log& log);

// `path` itself when it is a checkpoint, else the newest one in it. Throws CheckpointError.
std::string find_checkpoint(const std::string& path, bool fallback, const Log& log);

// Removes all but the newest `keep` of the own ones up to update `saved`; later ones stay. Once so
// many are there, those put aside by leave_checkpoints() go too when the run has passed them.
// Each gets a name that counts for nothing before it goes. Throws CheckpointError.
void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t saved,
                       FileOps& files = system_files());

// Renames checkpoints later than `update` to <name>.left, which no listing counts: a run that is
// resumed there takes another way. On the disk when it returns, before the run goes on: after a
// crash the newest is still the one it was resumed from. Throws CheckpointError.
void leave_checkpoints(const std::string& folder, std::int64_t update, const Log& log,
                       FileOps& files = system_files());

// Two runs must not mix in one folder: it is empty, or `resumed`, a checkpoint's path, is in it;
// else ConfigError.
void refuse_other_run(const std::string& output, const std::string& resumed);

// Removes what killed saves left, `*.tmp-*`, and takes back a folder that one had moved aside. Call
// it under the folder's lock.
void clean_checkpoints(const std::string& folder, const Log& log, FileOps& files = system_files());

// Holds a run's output folder, so that two jobs cannot write into one, where its file system knows
// locks. Creates it. Throws ConfigError naming the folder while another process, or another lock of
// this one, holds it.
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
