// SPDX-License-Identifier: MIT
#include "belfry/core/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace belfry {
namespace {

[[noreturn]] void throw_errno(const std::string& what, const std::string& path,
                              ErrorClass kind = ErrorClass::checkpoint) {
  const int code = errno;
  throw_error(kind, {.what = what, .found = std::strerror(code), .file = path});
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

int FileOps::create(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

std::ptrdiff_t FileOps::write(int fd, const void* data, std::size_t size) {
  return ::write(fd, data, size);
}

int FileOps::sync(int fd) { return ::fsync(fd); }

int FileOps::close(int fd) { return ::close(fd); }

int FileOps::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}

int FileOps::exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
}

int FileOps::sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  const int result = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  errno = code;
  return result != 0 && code == EINVAL ? 0 : result;  // a file system that flushes no folders
}

int FileOps::lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }

int FileOps::make_directory(const std::string& path) { return ::mkdir(path.c_str(), 0777); }

int FileOps::remove_file(const std::string& path) { return ::unlink(path.c_str()); }

int FileOps::remove_directory(const std::string& path) { return ::rmdir(path.c_str()); }

int FileOps::remove_all(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code status;
  const fs::file_type type = fs::symlink_status(path, status).type();
  if (type == fs::file_type::not_found) return 0;
  if (type != fs::file_type::directory) return remove_file(path);
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, status), end; !status && it != end; it.increment(status))
    names.push_back(it->path().string());
  if (status) {
    errno = status.value();
    return -1;
  }
  std::sort(names.begin(), names.end());  // the same calls every time
  for (const std::string& name : names)
    if (FileOps::remove_all(name) != 0) return -1;
  return remove_directory(path);
}

FileOps& system_files() {
  static FileOps files;
  return files;
}

FileWriter::FileWriter(std::string path, FileOps& ops)
    : path_(std::move(path)), ops_(&ops), fd_(ops.create(path_)) {
  if (fd_ < 0) throw_errno("cannot create the file", path_);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ops_->close(fd_);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), ops_(other.ops_), fd_(std::exchange(other.fd_, -1)) {}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux moves at most 2 GiB a call.
    const std::ptrdiff_t done =
        ops_->write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw_errno("cannot write the file", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void FileWriter::finish() {
  if (ops_->sync(fd_) != 0) throw_errno("cannot flush the file to disk", path_);
  if (ops_->close(std::exchange(fd_, -1)) != 0) throw_errno("cannot close the file", path_);
}

void FileWriter::move_to(const std::string& path) {
  if (ops_->sync(fd_) != 0) throw_errno("cannot flush the file to disk", path_);
  if (ops_->rename(path_, path) != 0) throw_errno("cannot rename " + path_ + " to it", path);
  path_ = path;
  if (ops_->sync_directory(parent_of(path_)) != 0) throw_errno("cannot flush the folder", path_);
}

void make_directories(const std::string& path, FileOps& ops) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    made /= part;
    std::error_code status;
    if (part.empty() || std::filesystem::is_directory(made, status)) continue;
    const std::string name = made.string();
    if (ops.make_directory(name) != 0) {
      const int code = errno;
      if (code == EEXIST && std::filesystem::is_directory(made, status)) continue;
      errno = code;
      throw_errno("cannot create the folder", name);
    }
    if (ops.sync_directory(parent_of(name)) != 0) throw_errno("cannot flush the folder", name);
  }
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes,
                           FileOps& ops) {
  const std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  try {
    FileWriter writer(temporary, ops);
    writer.write(bytes);
    writer.finish();
    if (ops.rename(temporary, path) != 0)
      throw_errno("cannot rename " + temporary + " to it", path);
  } catch (...) {
    ops.remove_file(temporary);
    throw;
  }
  if (ops.sync_directory(parent_of(path)) != 0) throw_errno("cannot flush the folder", path);
}

void write_file_atomically(const std::string& path, std::string_view text, FileOps& ops) {
  write_file_atomically(path, std::as_bytes(std::span(text)), ops);
}

AtomicDirectory::AtomicDirectory(std::string path, FileOps& ops)
    : path_(without_trailing_slash(std::move(path))), ops_(&ops) {
  std::string name;
  int result = -1;
  // A name may be taken by another thread's directory or by what a killed process left.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    name = path_ + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    result = ops_->make_directory(name);
    if (result == 0 || errno != EEXIST) break;
  }
  if (result != 0) throw_errno("cannot create the folder", name);
  temporary_ = name;
}

AtomicDirectory::~AtomicDirectory() {
  if (!temporary_.empty()) ops_->remove_all(temporary_);
}

FileWriter AtomicDirectory::file(const std::string& name) {
  return FileWriter(temporary_ + "/" + name, *ops_);
}

void AtomicDirectory::write(const std::string& name, std::span<const std::byte> bytes) {
  FileWriter writer = file(name);
  writer.write(bytes);
  writer.finish();
}

void AtomicDirectory::write(const std::string& name, std::string_view text) {
  write(name, std::as_bytes(std::span(text)));
}

void AtomicDirectory::commit(bool replace) {
  if (ops_->sync_directory(temporary_) != 0) throw_errno("cannot flush the folder", temporary_);
  std::string old;
  if (ops_->rename(temporary_, path_) != 0) {
    const bool exists = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
    if (!exists || !replace) throw_errno("cannot rename " + temporary_ + " to it", path_);
    old = this->replace();
  }
  temporary_.clear();
  // Until the new name is on the disk, a power cut would bring back the old content: it stays.
  if (ops_->sync_directory(parent_of(path_)) != 0) throw_errno("cannot flush the folder", path_);
  if (!old.empty()) ops_->remove_all(old);  // a leftover is harmless
}

// Puts the new content in the place of the old and returns where the old is then.
std::string AtomicDirectory::replace() {
  if (ops_->exchange(temporary_, path_) == 0) return temporary_;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw_errno("cannot replace the folder", path_);
  const std::string old = temporary_ + ".old";
  if (ops_->rename(path_, old) != 0) throw_errno("cannot rename it to " + old, path_);
  if (ops_->rename(temporary_, path_) != 0) {
    const int code = errno;
    ops_->rename(old, path_);
    errno = code;
    throw_errno("cannot rename " + temporary_ + " to it", path_);
  }
  return old;
}

InputFile::InputFile(std::string path, ErrorClass kind)
    : path_(std::move(path)),
      kind_(kind),
      fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe may have no writer
  if (fd_ < 0) throw_errno("cannot open the file", path_, kind_);
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    throw_error(kind_, {.what = "cannot read it", .expected = "a regular file", .file = path_});
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      kind_(other.kind_),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ::ssize_t done = ::pread(fd_, out.data(), out.size(), static_cast<::off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_errno("cannot read the file", path_, kind_);
    if (done == 0)
      throw_error(kind_, {.what = "the file ends early",
                          .found = std::to_string(size_) + " bytes",
                          .expected = std::to_string(offset + out.size()),
                          .file = path_});
    out = out.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

std::vector<std::byte> read_file(const std::string& path, std::uint64_t largest, ErrorClass kind) {
  const InputFile file(path, kind);
  if (file.size() > largest)
    throw_error(kind, {.what = "the file is too large",
                       .found = std::to_string(file.size()) + " bytes",
                       .expected = "at most " + std::to_string(largest),
                       .file = path});
  std::vector<std::byte> out(file.size());
  file.read_at(0, out);
  return out;
}

}  // namespace belfry
