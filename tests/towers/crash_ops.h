// SPDX-License-Identifier: MIT
// A file layer that fails or dies at a chosen call, and a model of what a power cut leaves.
#pragma once
#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "belfry/core/atomic_file.h"

namespace belfry::test {

// Works on the real file system. Call number `at` (from 1, all kinds) fails with `code`; with `die`
// that call and all later ones do nothing, as after a power cut, whose further damage crash() does:
//   a file keeps what was there at its last fsync; of what was written since, it keeps a part, or
//   zeros, or all;
//   of the names made, changed and removed in a folder since the folder's last fsync, a random
//   number of the last ones is undone.
// Writes are cut to 1..`short_write` bytes; `space` bytes fit onto the disk.
class CrashOps : public FileOps {
 public:
  long at = 0, calls = 0;
  int code = EIO;
  bool die = false, has_exchange = true;
  bool skip_sync = false, skip_folder_sync = false;  // as a product would that forgets them
  std::size_t short_write = 0;
  long space = -1;
  std::map<std::string, long> kinds;  // calls of each kind

  bool dead() const { return dead_; }

  int create(const std::string& path) override;
  std::ptrdiff_t write(int fd, const void* data, std::size_t size) override;
  int sync(int fd) override;
  int close(int fd) override;
  int rename(const std::string& from, const std::string& to) override;
  int exchange(const std::string& a, const std::string& b) override;
  int sync_directory(const std::string& path) override;
  int make_directory(const std::string& path) override;
  int remove_file(const std::string& path) override;
  int remove_directory(const std::string& path) override;

  // The power is back: what is not on the disk is gone, in a way that `seed` chooses.
  void crash(std::uint64_t seed);

 private:
  enum class Op { create, rename, replace, exchange, mkdir, unlink, rmdir };
  struct Entry {
    Op op;
    std::string a, b, before;
  };
  struct File {
    std::uint64_t durable = 0;  // bytes
  };

  bool fails(const char* kind);
  std::size_t random(std::size_t n);
  static std::string folder_of(const std::string& path);
  static std::string bytes_of(const std::string& path);
  static void put(const std::string& path, const std::string& bytes);
  static bool below(const std::string& path, const std::string& folder);
  static std::string moved_path(const std::string& path, const std::string& a,
                                const std::string& b);
  void every_path(const std::function<std::string(const std::string&)>& f);
  void moved(const std::string& a, const std::string& b);
  void swapped(const std::string& a, const std::string& b);
  void spoil(const std::string& path, std::uint64_t durable);
  // Where something is now that was at `path` when entry i was made.
  std::string now(std::string path, std::size_t i, const std::vector<bool>& undo) const;
  void take_back(const Entry& e, std::size_t i, const std::vector<bool>& undo);

  std::mutex mutex_;
  bool dead_ = false;
  std::uint64_t seed_ = 1;
  std::uint32_t draws_ = 0;
  std::map<int, std::string> open_;
  std::map<std::string, File> files_;
  std::vector<Entry> journal_;
};

}  // namespace belfry::test
