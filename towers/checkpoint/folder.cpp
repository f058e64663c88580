// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "belfry/core/error.h"
#include "belfry/towers/checkpoint/checkpoint.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

// The number of "step_120", nothing for "step_120.tmp-1", "step_" or "best".
std::optional<std::int64_t> step_number(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t n = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data() + kPrefix.size(), end, n);
  if (status != std::errc() || stop != end || n < 0) return std::nullopt;
  return n;
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t update) {
  return (fs::path(folder) / ("step_" + std::to_string(update))).string();
}

std::vector<std::int64_t> list_checkpoints(const std::string& folder) {
  std::vector<std::int64_t> out;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    const auto number = step_number(it->path().filename().string());
    if (number && fs::exists(it->path() / "manifest.json")) out.push_back(*number);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string newest_checkpoint(const std::string& folder, bool fallback, const Log& log) {
  std::vector<std::int64_t> updates = list_checkpoints(folder);
  for (; !updates.empty(); updates.pop_back()) {
    const std::string path = checkpoint_path(folder, updates.back());
    try {
      verify_checkpoint(path);
      return path;
    } catch (const CheckpointError& error) {
      if (!fallback || updates.size() == 1) throw;
      log.warn("{}: falling back to an older checkpoint", error.what());
    }
  }
  return "";
}

std::string find_checkpoint(const std::string& path, bool fallback, const Log& log) {
  if (fs::exists(fs::path(path) / "manifest.json")) return path;
  const std::string newest = newest_checkpoint(path, fallback, log);
  if (newest.empty()) {
    verify_checkpoint(path);  // says what is wrong with it
  }
  return newest;
}

void prune_checkpoints(const std::string& folder, std::int64_t keep, FileOps& files) {
  const std::vector<std::int64_t> updates = list_checkpoints(folder);
  const auto extra = static_cast<std::int64_t>(updates.size()) - keep;
  for (std::int64_t i = 0; i < extra; ++i) {
    const std::string path = checkpoint_path(folder, updates[static_cast<std::size_t>(i)]);
    if (files.remove_all(path) != 0)
      throw CheckpointError(
          ErrorText{.what = std::string("cannot remove an old checkpoint: ") + std::strerror(errno),
                    .file = path});
  }
}

FolderLock::FolderLock(const std::string& folder) : fd_(-1) {
  std::error_code status;
  fs::create_directories(folder, status);
  if (status)
    throw CheckpointError(
        ErrorText{.what = "cannot create the output folder: " + status.message(), .file = folder});
  const std::string path = (fs::path(folder) / ".lock").string();
  fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw CheckpointError(ErrorText{
        .what = std::string("cannot create the lock file: ") + std::strerror(errno), .file = path});
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd_);
    throw ConfigError(ErrorText{.what = "another run writes into the output folder",
                                .found = "'" + folder + "' in use",
                                .fix = "wait for it to end, or use another folder"});
  }
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace belfry
