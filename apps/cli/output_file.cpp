// SPDX-License-Identifier: MIT
#include "belfry/apps/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "belfry/core/atomic_file.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

// Where the links of `path` lead, the last of which may point to nothing yet.
fs::path behind_links(fs::path path) {
  std::error_code code;
  for (int i = 0; i < 40 && fs::is_symlink(path, code); ++i) {
    const fs::path next = fs::read_symlink(path, code);
    if (code) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

// A device, FIFO or socket. Opened without creating, so that nothing is left if it has gone.
void write_direct(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  int failure = fd < 0 ? errno : 0;
  while (failure == 0 && !text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) failure = errno;
  }
  if (fd >= 0) ::close(fd);
  if (failure != 0)
    throw CheckpointError(
        ErrorText{.what = "cannot write", .found = std::strerror(failure), .file = path});
}

// Whether a run writes this file there itself.
bool written_by_runs(const fs::path& file, const fs::path& folder) {
  if (file.filename() == "manifest.json") return true;
  std::error_code code;
  if (file.extension() != ".jsonl" || !fs::exists(file, code)) return false;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (fs::exists(entry.path() / "manifest.json", code)) return true;
  return false;
}

}  // namespace

std::string file_name_fault(const std::string& text) {
  return text.empty() ? "needs the name of a file, or - for stdout" : "";
}

OutputFile::OutputFile(const std::string& flag, std::string path,
                       const std::vector<std::string>& inputs)
    : path_(std::move(path)) {
  if (path_ == "/dev/stdout") path_ = "-";
  if (path_.empty() || path_ == "-") return;
  const auto refuse = [&](const std::string& found, const std::string& fix = "") {
    throw ConfigError(
        ErrorText{.what = flag + " " + path_ + " cannot be written", .found = found, .fix = fix});
  };
  struct stat there {};
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) refuse("a folder", "name a file in it");
  for (const std::string& input : inputs) {
    struct stat other {};
    if (exists && ::stat(input.c_str(), &other) == 0 && other.st_dev == there.st_dev &&
        other.st_ino == there.st_ino)
      refuse("the file " + input + " that the run reads", "name another file");
  }
  direct_ = exists && !S_ISREG(there.st_mode);
  target_ = direct_ ? path_ : behind_links(path_).string();
  if (exists && ::access(path_.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  if (direct_) return;
  const std::string parent = fs::path(target_).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (!fs::path(target_).has_filename()) refuse("a folder", "name a file in it");
  std::error_code code;
  if (!fs::is_directory(folder, code)) refuse("no folder " + folder, "make it first");
  if (fs::exists(fs::path(folder) / "manifest.json", code))
    refuse(folder + " is a checkpoint", "name a file elsewhere");
  if (written_by_runs(target_, folder))
    refuse("a file that the run in " + folder + " writes", "name another file");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(folder + ": " + std::strerror(errno), "name a file in a folder you may write to");
  // Rights are not all: /proc and the like take no new files.
  const std::string probe =
      (fs::path(folder) / (".belfry-check-" + std::to_string(::getpid()))).string();
  const int fd = ::open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0 && errno != EEXIST)
    refuse("no new file in " + folder + ": " + std::strerror(errno), "name a file elsewhere");
  if (fd < 0) return;
  ::close(fd);
  ::unlink(probe.c_str());
}

void require_output_folder(const std::string& folder) {
  if (folder.empty()) return;
  const auto refuse = [&](const std::string& found, const std::string& fix) {
    throw CheckpointError(ErrorText{
        .what = "the output folder cannot be used", .found = found, .fix = fix, .file = folder});
  };
  std::error_code code;
  fs::path standing = fs::path(folder).lexically_normal();
  while (!fs::exists(fs::symlink_status(standing, code)) && standing.has_relative_path() &&
         standing != standing.parent_path())
    standing = standing.parent_path();
  if (standing.empty()) standing = ".";
  if (!fs::is_directory(standing, code))
    refuse(standing.string() + ", which is no folder", "name another folder as `output`");
  const fs::path probe = standing / (".belfry-check-" + std::to_string(::getpid()));
  if (::mkdir(probe.c_str(), 0700) != 0)
    refuse("no right to write in " + standing.string() + ": " + std::strerror(errno),
           "name a folder that you may write to as `output`");
  ::rmdir(probe.c_str());
}

void OutputFile::write(std::string_view text, const CliIo& io) const {
  if (!wanted()) return;
  if (to_stdout())
    io.out(text);
  else if (direct_)
    write_direct(target_, text);
  else
    write_file_atomically(target_, text);
}

}  // namespace belfry
