// SPDX-License-Identifier: MIT
// A file layer that fails or dies at a chosen call, and a model of what a power cut leaves.
#pragma once
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "belfry/core/atomic_file.h"
#include "belfry/core/philox.h"

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
  std::size_t short_write = 0;
  long space = -1;
  std::map<std::string, long> kinds;  // calls of each kind

  bool dead() const { return dead_; }

  int create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails("create")) return -1;
    const bool fresh = !std::filesystem::exists(path);
    std::string before = fresh ? "" : bytes_of(path);
    const int fd = FileOps::create(path);
    if (fd < 0) return fd;
    open_[fd] = path;
    files_[path] = {0};
    if (fresh) journal_.push_back({Op::create, path, "", ""});
    return fd;
  }
  std::ptrdiff_t write(int fd, const void* data, std::size_t size) override {
    const std::lock_guard lock(mutex_);
    if (fails("write")) return -1;
    if (short_write > 0) size = std::min(size, 1 + random(short_write));
    if (space >= 0) {
      if (space == 0) {
        errno = ENOSPC;
        return -1;
      }
      size = std::min(size, static_cast<std::size_t>(space));
      space -= static_cast<long>(size);
    }
    return FileOps::write(fd, data, size);
  }
  int sync(int fd) override {
    const std::lock_guard lock(mutex_);
    if (fails("fsync")) return -1;
    files_[open_[fd]].durable = std::filesystem::file_size(open_[fd]);
    return 0;
  }
  int close(int fd) override {
    const std::lock_guard lock(mutex_);
    const bool failing = fails("close");
    const int result = FileOps::close(fd);  // also when it fails: the descriptor is gone
    open_.erase(fd);
    if (!failing) return result;
    errno = code;
    return -1;
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    if (fails("rename")) return -1;
    const bool file = std::filesystem::is_regular_file(to);
    const std::string before = file ? bytes_of(to) : "";
    const int result = FileOps::rename(from, to);
    if (result != 0) return result;
    moved(from, to);
    journal_.push_back({file ? Op::replace : Op::rename, from, to, before});
    return 0;
  }
  int exchange(const std::string& a, const std::string& b) override {
    const std::lock_guard lock(mutex_);
    if (fails("exchange")) return -1;
    if (!has_exchange) {
      errno = EINVAL;
      return -1;
    }
    const int result = FileOps::exchange(a, b);
    if (result != 0) return result;
    swapped(a, b);
    journal_.push_back({Op::exchange, a, b, ""});
    return 0;
  }
  int sync_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails("fsync of a folder")) return -1;
    if (!std::filesystem::is_directory(path)) return FileOps::sync_directory(path);
    std::erase_if(journal_, [&](const Entry& e) {
      return std::filesystem::path(e.a).parent_path() == std::filesystem::path(path);
    });
    return 0;
  }
  int make_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails("mkdir")) return -1;
    const int result = FileOps::make_directory(path);
    if (result == 0) journal_.push_back({Op::mkdir, path, "", ""});
    return result;
  }
  int remove_file(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails("unlink")) return -1;
    const std::string before = bytes_of(path);
    const int result = FileOps::remove_file(path);
    if (result == 0) journal_.push_back({Op::unlink, path, "", before});
    return result;
  }
  int remove_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails("rmdir")) return -1;
    const int result = FileOps::remove_directory(path);
    if (result == 0) journal_.push_back({Op::rmdir, path, "", ""});
    return result;
  }

  // The power is back: what is not on the disk is gone, in a way that `seed` chooses.
  void crash(std::uint64_t seed) {
    seed_ = seed;
    for (const auto& [fd, path] : open_) FileOps::close(fd);
    for (const auto& [path, file] : files_) spoil(path, file.durable);
    std::map<std::string, std::size_t> kept;  // entries of each folder
    for (const Entry& e : journal_) ++kept[folder_of(e.a)];
    for (auto& [folder, n] : kept) n = random(n + 1);
    std::map<std::string, std::size_t> seen;
    std::vector<bool> undo(journal_.size());
    for (std::size_t i = 0; i < journal_.size(); ++i)
      undo[i] = seen[folder_of(journal_[i].a)]++ >= kept[folder_of(journal_[i].a)];
    for (std::size_t i = journal_.size(); i-- > 0;)
      if (undo[i]) take_back(journal_[i], i, undo);
  }

 private:
  enum class Op { create, rename, replace, exchange, mkdir, unlink, rmdir };
  struct Entry {
    Op op;
    std::string a, b, before;
  };
  struct File {
    std::uint64_t durable = 0;  // bytes
  };

  bool fails(const char* kind) {
    ++kinds[kind];
    ++calls;
    if (dead_ || (at > 0 && calls == at)) {
      dead_ = dead_ || die;
      errno = code;
      return true;
    }
    return false;
  }
  std::size_t random(std::size_t n) {
    const auto w = philox_key(seed_, Purpose::test)(++draws_, 0, 0, 0);
    return w.v[0] % std::max<std::size_t>(n, 1);
  }
  static std::string folder_of(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static bool below(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }
  static std::string moved_path(const std::string& path, const std::string& a,
                                const std::string& b) {
    return below(path, a) ? b + path.substr(a.size()) : path;
  }
  template <class F>
  void every_path(F&& f) {
    std::map<std::string, File> files;
    for (auto& [path, file] : files_) files[f(path)] = file;
    files_ = std::move(files);
    for (auto& [fd, path] : open_) path = f(path);
  }
  void moved(const std::string& a, const std::string& b) {
    every_path([&](const std::string& p) { return moved_path(p, a, b); });
  }
  void swapped(const std::string& a, const std::string& b) {
    every_path([&](const std::string& p) {
      return below(p, a) ? moved_path(p, a, b) : moved_path(p, b, a);
    });
  }
  void spoil(const std::string& path, std::uint64_t durable) {
    if (!std::filesystem::is_regular_file(path)) return;
    std::string bytes = bytes_of(path);
    if (bytes.size() <= durable) return;
    const std::size_t from = durable + random(bytes.size() - durable + 1);
    if (random(3) == 0)
      bytes.resize(from);
    else if (random(2) == 0)
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), '\0');
    put(path, bytes);
  }
  // Where something is now that was at `path` when entry i was made.
  std::string now(std::string path, std::size_t i, const std::vector<bool>& undo) const {
    for (std::size_t k = i + 1; k < journal_.size(); ++k) {
      const Entry& e = journal_[k];
      if (undo[k]) continue;  // taken back before
      if (e.op == Op::rename || e.op == Op::replace) path = moved_path(path, e.a, e.b);
      if (e.op == Op::exchange)
        path = below(path, e.a) ? moved_path(path, e.a, e.b) : moved_path(path, e.b, e.a);
    }
    return path;
  }
  void take_back(const Entry& e, std::size_t i, const std::vector<bool>& undo) {
    namespace fs = std::filesystem;
    const std::string a = now(e.a, i, undo), b = e.b.empty() ? "" : now(e.b, i, undo);
    std::error_code status;
    switch (e.op) {
      case Op::create:
      case Op::mkdir:
        fs::remove_all(a, status);
        break;
      case Op::rename:
        fs::rename(b, e.a, status);
        break;
      case Op::replace:
        fs::rename(b, e.a, status);
        put(b, e.before);
        break;
      case Op::exchange:
        FileOps::exchange(e.a, e.b);
        break;
      case Op::unlink:
        if (fs::is_directory(folder_of(a))) put(a, e.before);
        break;
      case Op::rmdir:
        fs::create_directory(a, status);
        break;
    }
  }

  std::mutex mutex_;
  bool dead_ = false;
  std::uint64_t seed_ = 1;
  std::uint32_t draws_ = 0;
  std::map<int, std::string> open_;
  std::map<std::string, File> files_;
  std::vector<Entry> journal_;
};

}  // namespace belfry::test
