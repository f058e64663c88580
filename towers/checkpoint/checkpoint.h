// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>

#include "belfry/core/atomic_file.h"
#include "belfry/towers/checkpoint/manifest.h"
#include "belfry/towers/group.h"

namespace belfry {

struct LoadOptions {
  bool partial = false;   // take what fits and log the rest
  bool optimizer = true;  // false: parameters and their average only, for evaluation
  bool ema = true;        // false, without optimizer: not the average either
};

// A directory with model.safetensors (parameters), optimizer.safetensors (state and averaged
// parameters) and manifest.json. Tensors have the variables' names, without tower or rank, so it
// loads on any number of towers. Borrows the group. One thread.
class Checkpoint {
 public:
  Checkpoint(std::string path, TowerGroupBase& group, FileOps& files = system_files());

  // Appears complete or not at all; replaces one of the same path. Throws CheckpointError, and then
  // what was there is untouched.
  void save(const RunState& run = {});
  // Copies the group to host memory and returns; group.background() writes. The next save of the
  // group and its end wait for that; a failure comes out of the next step() or save. `then` runs
  // once the checkpoint is safe on the disk, on the writing thread.
  void save_async(const RunState& run = {}, std::function<void()> then = {});
  // Everything is checked before the group is changed. In a partial load, variables whose state is
  // not complete start anew: step count and state 0, average at the parameter. Throws
  // CheckpointError: a damaged file, or another model or optimizer, with every difference.
  Manifest load(const LoadOptions& options = {});

 private:
  std::string path_;
  TowerGroupBase& group_;
  FileOps& files_;
};

// The manifest alone, its own checksum checked.
Manifest read_manifest(const std::string& folder);

// Reads the manifest and checks every file's size and checksum.
Manifest verify_checkpoint(const std::string& path);

}  // namespace belfry
