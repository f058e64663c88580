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
    if (number && it->is_directory(status)) out.push_back(*number);
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

void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t saved,
                       FileOps& files) {
  std::vector<std::int64_t> updates = list_checkpoints(folder);
  std::erase_if(updates, [&](std::int64_t update) {
    return update > saved ||
           !fs::exists(fs::path(checkpoint_path(folder, update)) / "manifest.json");
  });
  const auto extra = static_cast<std::int64_t>(updates.size()) - keep;
  std::string fault, where;
  for (std::int64_t i = 0; i < extra; ++i) {
    const std::string path = checkpoint_path(folder, updates[static_cast<std::size_t>(i)]);
    if (files.remove_all(path) == 0 || !fault.empty()) continue;
    fault = std::strerror(errno);  // of the first; the others may still go
    where = path;
  }
  if (!fault.empty())
    throw CheckpointError(
        ErrorText{.what = "cannot remove an old checkpoint: " + fault, .file = where});
}

void leave_checkpoints(const std::string& folder, std::int64_t saved, const Log& log,
                       FileOps& files) {
  for (const std::int64_t update : list_checkpoints(folder)) {
    if (update <= saved) continue;
    const std::string path = checkpoint_path(folder, update);
    std::string left = path + ".left";
    for (int n = 2; fs::exists(left); ++n) left = path + ".left" + std::to_string(n);
    if (files.rename(path, left) != 0)
      throw CheckpointError(ErrorText{
          .what = "cannot rename it to " + left + ": " + std::strerror(errno), .file = path});
    log.warn("{} is later than the update resumed from: renamed to {}", path, left);
  }
}

void clean_checkpoints(const std::string& folder, const Log& log, FileOps& files) {
  constexpr std::string_view kMark = ".tmp-", kOld = ".old";
  std::vector<std::string> names;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    const std::string name = it->path().filename().string();
    const std::string base = name.substr(0, name.find(kMark));
    if (base != name && (base == "best" || step_number(base))) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    const fs::path whole = fs::path(folder) / name.substr(0, name.find(kMark));
    if (name.ends_with(kOld) && !fs::exists(whole) && files.rename(path, whole.string()) == 0)
      log.warn("{}: taken back, its replacement was not finished", whole.string());
    else if (files.remove_all(path) != 0)
      log.warn("{}: cannot remove what a killed save left: {}", path, std::strerror(errno));
  }
}

FolderLock::FolderLock(const std::string& folder, FileOps& files) : fd_(-1) {
  make_directories(folder, files);
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
