// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/core/error.h"

namespace belfry {

// The system calls behind every write of the library, so that tests can make each one fail. Calls
// return -1 with errno set, like the system's.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int create(const std::string& path);  // write only, truncated; a descriptor
  virtual std::ptrdiff_t write(int fd, const void* data, std::size_t size);
  virtual int sync(int fd);
  virtual int close(int fd);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int exchange(const std::string& a, const std::string& b);  // both exist, atomically
  virtual int sync_directory(const std::string& path);
  virtual int lock(int fd);  // for this process alone; EWOULDBLOCK while somebody holds it
  virtual int make_directory(const std::string& path);
  virtual int remove_file(const std::string& path);
  virtual int remove_directory(const std::string& path);  // an empty one
  virtual int remove_all(const std::string& path);  // a tree, by the two above; nothing there: 0
};
FileOps& system_files();

// One file being written. Throws CheckpointError with path and errno text; closes in the
// destructor.
class FileWriter {
 public:
  FileWriter(std::string path, FileOps& ops);
  ~FileWriter();
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish();  // flushed to the disk and closed
  // Takes the place of the file at `path`, flushed first; writing goes on there.
  void move_to(const std::string& path);

 private:
  std::string path_;
  FileOps* ops_;
  int fd_;
};

// Replaces `path` as a whole: readers see the old content or the new one, also after a power cut.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes,
                           FileOps& ops = system_files());
void write_file_atomically(const std::string& path, std::string_view text,
                           FileOps& ops = system_files());

// Makes the folder and those above it, each flushed to its parent. Throws CheckpointError.
void make_directories(const std::string& path, FileOps& ops = system_files());

// A directory that appears complete or not at all: written as `<path>.tmp-<number>`, renamed by
// commit(). Without commit() the destructor removes what was written. One thread.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(std::string path, FileOps& ops = system_files());
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  FileWriter file(const std::string& name);  // call its finish() before commit()
  void write(const std::string& name, std::span<const std::byte> bytes);
  void write(const std::string& name, std::string_view text);
  const std::string& temporary_path() const { return temporary_; }
  // With `replace`, an existing directory at the path is exchanged and then removed; where the
  // file system cannot exchange, it is `<temporary_path>.old` for a moment.
  void commit(bool replace = false);

 private:
  std::string replace();

  std::string path_;
  std::string temporary_;
  FileOps* ops_;
};

// A file open for reading at any offset. Throws an error of the class given, with the path.
class InputFile {
 public:
  explicit InputFile(std::string path, ErrorClass kind = ErrorClass::checkpoint);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;  // all of it or an error

 private:
  std::string path_;
  ErrorClass kind_;
  int fd_;
  std::uint64_t size_ = 0;
};

// The whole file. Its size is checked against `largest` before memory is taken.
std::vector<std::byte> read_file(const std::string& path,
                                 std::uint64_t largest = std::numeric_limits<std::uint64_t>::max(),
                                 ErrorClass kind = ErrorClass::checkpoint);

}  // namespace belfry
