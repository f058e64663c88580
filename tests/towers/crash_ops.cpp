// SPDX-License-Identifier: MIT
#include "belfry/tests/towers/crash_ops.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "belfry/core/philox.h"

namespace belfry::test {

int CrashOps::create(const std::string& path) {
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

std::ptrdiff_t CrashOps::write(int fd, const void* data, std::size_t size) {
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

int CrashOps::sync(int fd) {
  const std::lock_guard lock(mutex_);
  if (fails("fsync")) return -1;
  if (skip_sync) return 0;
  files_[open_[fd]].durable = std::filesystem::file_size(open_[fd]);
  return 0;
}

int CrashOps::close(int fd) {
  const std::lock_guard lock(mutex_);
  const bool failing = fails("close");
  const int result = FileOps::close(fd);  // also when it fails: the descriptor is gone
  open_.erase(fd);
  if (!failing) return result;
  errno = code;
  return -1;
}

int CrashOps::rename(const std::string& from, const std::string& to) {
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

int CrashOps::exchange(const std::string& a, const std::string& b) {
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

int CrashOps::sync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (fails("fsync of a folder")) return -1;
  if (skip_folder_sync) return 0;
  if (!std::filesystem::is_directory(path)) return FileOps::sync_directory(path);
  std::erase_if(journal_, [&](const Entry& e) {
    return std::filesystem::path(e.a).parent_path() == std::filesystem::path(path);
  });
  return 0;
}

int CrashOps::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (fails("mkdir")) return -1;
  const int result = FileOps::make_directory(path);
  if (result == 0) journal_.push_back({Op::mkdir, path, "", ""});
  return result;
}

int CrashOps::remove_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (fails("unlink")) return -1;
  const std::string before = bytes_of(path);
  const int result = FileOps::remove_file(path);
  if (result == 0) journal_.push_back({Op::unlink, path, "", before});
  return result;
}

int CrashOps::remove_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (fails("rmdir")) return -1;
  const int result = FileOps::remove_directory(path);
  if (result == 0) journal_.push_back({Op::rmdir, path, "", ""});
  return result;
}

void CrashOps::crash(std::uint64_t seed) {
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

bool CrashOps::fails(const char* kind) {
  ++kinds[kind];
  ++calls;
  if (dead_ || (at > 0 && calls == at)) {
    dead_ = dead_ || die;
    errno = code;
    return true;
  }
  return false;
}

std::size_t CrashOps::random(std::size_t n) {
  const auto w = philox_key(seed_, Purpose::test)(++draws_, 0, 0, 0);
  return w.v[0] % std::max<std::size_t>(n, 1);
}

std::string CrashOps::folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

std::string CrashOps::bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

void CrashOps::put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

bool CrashOps::below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

std::string CrashOps::moved_path(const std::string& path, const std::string& a,
                                 const std::string& b) {
  return below(path, a) ? b + path.substr(a.size()) : path;
}

void CrashOps::every_path(const std::function<std::string(const std::string&)>& f) {
  std::map<std::string, File> files;
  for (auto& [path, file] : files_) files[f(path)] = file;
  files_ = std::move(files);
  for (auto& [fd, path] : open_) path = f(path);
}

void CrashOps::moved(const std::string& a, const std::string& b) {
  every_path([&](const std::string& p) { return moved_path(p, a, b); });
}

void CrashOps::swapped(const std::string& a, const std::string& b) {
  every_path([&](const std::string& p) {
    return below(p, a) ? moved_path(p, a, b) : moved_path(p, b, a);
  });
}

void CrashOps::spoil(const std::string& path, std::uint64_t durable) {
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

std::string CrashOps::now(std::string path, std::size_t i, const std::vector<bool>& undo) const {
  for (std::size_t k = i + 1; k < journal_.size(); ++k) {
    const Entry& e = journal_[k];
    if (undo[k]) continue;  // taken back before
    if (e.op == Op::rename || e.op == Op::replace) path = moved_path(path, e.a, e.b);
    if (e.op == Op::exchange)
      path = below(path, e.a) ? moved_path(path, e.a, e.b) : moved_path(path, e.b, e.a);
  }
  return path;
}

void CrashOps::take_back(const Entry& e, std::size_t i, const std::vector<bool>& undo) {
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

}  // namespace belfry::test
