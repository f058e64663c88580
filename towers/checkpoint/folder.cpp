// SPDX-License-Identifier: MIT
#include "belfry/towers/checkpoint/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <tuple>

#include "belfry/core/error.h"
#include "belfry/towers/checkpoint/checkpoint.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step_", kUnfinished = ".tmp-", kOld = ".old", kLeft = ".left";

// The number of "step_120", nothing for "step_120.tmp-1", "step_" or "best".
std::optional<std::int64_t> step_number(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t n = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data() + kStep.size(), end, n);
  if (status != std::errc() || stop != end || n < 0) return std::nullopt;
  return n;
}

// Checkpoints that were put aside and that update `saved` has passed. What is not whole, or not
// named by what it holds, is not ours to remove.
std::vector<std::string> passed_by(const std::string& folder, std::int64_t saved) {
  std::vector<std::string> out;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    const std::string name = it->path().filename().string();
    const auto number = step_number(name.substr(0, name.find(kLeft)));
    if (!number || *number > saved || name.find(kLeft) == name.npos) continue;
    try {
      if (read_manifest(it->path().string()).clocks.attempts == *number)
        out.push_back(it->path().string());
    } catch (const CheckpointError&) {
    }
  }
  return out;
}

// First all get names that no listing counts, then these are flushed, then the folders go: nothing
// is ever half there under a name that counts. What is not removed goes when a run starts.
void remove_checkpoints(const std::string& folder, const std::vector<std::string>& paths,
                        FileOps& files) {
  std::vector<std::string> gone;
  std::string fault, where;
  std::error_code status;
  const auto note = [&](const std::string& path) {
    if (fault.empty()) fault = std::strerror(errno), where = path;  // the others may still go
  };
  for (const std::string& path : paths) {
    const fs::path whole = path;
    std::string name = whole.filename().string();
    name = (whole.parent_path() / name.substr(0, name.find(kLeft))).string() +
           std::string(kUnfinished) + std::to_string(::getpid()) + "-gone";
    while (fs::exists(name, status)) name += "+";
    if (files.rename(path, name) != 0)
      note(path);
    else
      gone.push_back(name);
  }
  if (!gone.empty() && files.sync_directory(folder) != 0)
    note(folder);
  else
    for (const std::string& name : gone)
      if (files.remove_all(name) != 0) note(name);
  if (!fault.empty())
    throw CheckpointError(
        ErrorText{.what = "cannot remove an old checkpoint: " + fault, .file = where});
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

std::vector<FoundCheckpoint> found_checkpoints(const std::string& folder) {
  std::vector<FoundCheckpoint> out;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kStep) || name.find(kUnfinished) != name.npos ||
        name.find(kLeft) != name.npos || !it->is_directory(status))
      continue;
    FoundCheckpoint found{.path = it->path().string()};
    const std::optional<std::int64_t> number = step_number(name);
    try {
      found.update = read_manifest(found.path).clocks.attempts;
      found.own = number == found.update;
    } catch (const CheckpointError& error) {
      if (!number) continue;  // neither name nor content says that it is one
      found.update = *number;
      found.damage = error.what();
    }
    out.push_back(std::move(found));
  }
  std::sort(out.begin(), out.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::tie(a.update, a.own, a.path) < std::tie(b.update, b.own, b.path);
  });
  return out;
}

std::string standing_checkpoint(const std::string& path) {
  fs::path whole = path;
  if (!whole.has_filename()) whole = whole.parent_path();
  std::error_code status;
  if (fs::exists(whole, status)) return path;
  const std::string start = whole.filename().string() + std::string(kUnfinished);
  const fs::path parent = whole.has_parent_path() ? whole.parent_path() : fs::path(".");
  for (fs::directory_iterator it(parent, status), end; !status && it != end; it.increment(status)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(start) && name.ends_with(kOld)) return it->path().string();
  }
  return path;
}

std::string newest_checkpoint(const std::string& folder, bool fallback, const Log& log) {
  std::vector<FoundCheckpoint> found = found_checkpoints(folder);
  for (; !found.empty(); found.pop_back()) {
    try {
      verify_checkpoint(found.back().path);
      return found.back().path;
    } catch (const CheckpointError& error) {
      if (!fallback || found.size() == 1) {
        // Advice that helps here, where there may be an older one or none.
        ErrorText text = error.text();
        text.fix = found.size() == 1 ? "there is no older checkpoint in the folder: resume from "
                                       "another one, or begin in another folder"
                                     : "resume from another checkpoint, or set checkpoint.fallback "
                                       "= true to take the next older one";
        throw CheckpointError(text);
      }
      log.warn("{}: falling back to an older checkpoint", error.what());
    }
  }
  return "";
}

std::string find_checkpoint(const std::string& path, bool fallback, const Log& log) {
  std::error_code status;
  if (fs::exists(fs::path(path) / "manifest.json", status)) return path;
  if (std::string standing = standing_checkpoint(path); standing != path) return standing;
  const std::string newest = newest_checkpoint(path, fallback, log);
  if (newest.empty()) {
    verify_checkpoint(path);  // says what is wrong with it
  }
  return newest;
}

void prune_checkpoints(const std::string& folder, std::int64_t keep, std::int64_t saved,
                       FileOps& files) {
  std::vector<FoundCheckpoint> own = found_checkpoints(folder);
  std::erase_if(own, [&](const FoundCheckpoint& f) { return !f.own || f.update > saved; });
  std::vector<std::string> old;
  const auto extra = static_cast<std::int64_t>(own.size()) - keep;
  for (std::int64_t i = 0; i < extra; ++i) old.push_back(own[static_cast<std::size_t>(i)].path);
  if (extra >= 0)
    for (std::string& path : passed_by(folder, saved)) old.push_back(std::move(path));
  remove_checkpoints(folder, old, files);
}

void leave_checkpoints(const std::string& folder, std::int64_t update, const Log& log,
                       FileOps& files) {
  bool any = false;
  std::error_code status;
  for (const FoundCheckpoint& found : found_checkpoints(folder)) {
    if (found.update <= update) continue;
    std::string left = found.path + std::string(kLeft);
    for (int n = 2; fs::exists(left, status); ++n)
      left = found.path + std::string(kLeft) + std::to_string(n);
    if (files.rename(found.path, left) != 0)
      throw CheckpointError(ErrorText{
          .what = "cannot rename it to " + left + ": " + std::strerror(errno), .file = found.path});
    log.warn("{} is later than the update resumed from: renamed to {}", found.path, left);
    any = true;
  }
  if (any && files.sync_directory(folder) != 0)
    throw CheckpointError(ErrorText{
        .what = "cannot flush the folder", .found = std::strerror(errno), .file = folder});
}

void refuse_other_run(const std::string& output, const std::string& resumed) {
  if (output.empty() || found_checkpoints(output).empty()) return;
  std::error_code status;
  const fs::path from = fs::canonical(resumed, status);
  if (!resumed.empty() && !status && fs::equivalent(from.parent_path(), output, status)) return;
  if (!resumed.empty())
    throw ConfigError(ErrorText{
        .what = "the output folder already holds a run, and --resume names a checkpoint of another",
        .found = "checkpoints in '" + output + "' beside --resume from '" + resumed + "'",
        .fix =
            "set output = \"" + fs::path(resumed).parent_path().string() +
            "\" to go on there, or a new folder; or give --resume alone to continue the run in '" +
            output + "'"});
  throw ConfigError(ErrorText{.what = "the output folder already holds a run",
                              .found = "checkpoints in '" + output + "'",
                              .fix = "continue it with --resume, or use another folder"});
}

void clean_checkpoints(const std::string& folder, const Log& log, FileOps& files) {
  std::vector<std::string> names;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    const std::string name = it->path().filename().string();
    const std::string base = name.substr(0, name.find(kUnfinished));
    if (base != name && (base == "best" || step_number(base))) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    const fs::path whole = fs::path(folder) / name.substr(0, name.find(kUnfinished));
    if (name.ends_with(kOld) && !fs::exists(whole, status)) {  // the only copy
      if (files.rename(path, whole.string()) == 0)
        log.warn("{}: taken back, its replacement was not finished", whole.string());
      else
        log.warn("{}: cannot be taken back from {}: {}", whole.string(), path,
                 std::strerror(errno));
    } else if (files.remove_all(path) != 0) {
      log.warn("{}: cannot remove what a killed save left: {}", path, std::strerror(errno));
    }
  }
}

FolderLock::FolderLock(const std::string& folder, FileOps& files) : fd_(-1) {
  make_directories(folder, files);
  const std::string path = (fs::path(folder) / ".lock").string();
  fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw CheckpointError(ErrorText{
        .what = std::string("cannot create the lock file: ") + std::strerror(errno), .file = path});
  // A file system may know no locks (Lustre's ENOSYS): then nobody can hold one.
  if (files.lock(fd_) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    throw ConfigError(ErrorText{.what = "another run writes into the output folder",
                                .found = "'" + folder + "' in use",
                                .fix = "wait for it to end, or use another folder"});
  }
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace belfry
