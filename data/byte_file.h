// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belfry/core/host_buffer.h"
#include "belfry/data/byte_block.h"

struct gzFile_s;

namespace belfry {

// A plain or gzip-compressed file read once from front to back; owns the descriptor, one thread.
// Of gzip whose rest is wanted as a whole, all is inflated at once.
// Every failure is a DataError naming the file: missing, a folder, unreadable, damaged or cut gzip.
class ByteFile {
 public:
  explicit ByteFile(const std::string& path);
  // Up to `bytes`; fewer only at the end of the file.
  std::size_t read(void* out, std::size_t bytes);
  // Appends up to `bytes`, as many as the file really holds whatever its header claims: in steps of
  // at most 4 MiB, or from what is inflated. Returns how many came.
  std::uint64_t append(std::vector<std::uint8_t>& out, std::uint64_t bytes);
  // The same as memory of its own, without a copy of what is inflated.
  ByteBlock rest(std::uint64_t bytes);
  // Reads on to the end without keeping anything, at most `limit` bytes; how many there were.
  std::uint64_t skip(std::uint64_t limit);
  // What the file can hold at most: its size, or for gzip 1032 times that (deflate's best ratio).
  std::uint64_t max_bytes() const noexcept;
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  bool compressed() const noexcept { return compressed_; }
  const std::string& path() const noexcept { return path_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const noexcept;
  };
  void inflate_whole();
  std::size_t read_whole(void* out, std::size_t bytes);
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::shared_ptr<const HostBuffer> whole_;  // inflated, in place of file_
  std::size_t whole_bytes_ = 0;
  std::size_t position_ = 0;  // of what is inflated
  std::uint64_t file_bytes_ = 0;
  bool compressed_ = false;
};

// `path` as it stands when absolute or `base` is empty, else inside `base`.
std::string path_in(const std::string& base, const std::string& path);

// What a file with these first bytes looks like ("a zip archive"), or "" when nothing is known.
std::string guess_format(const std::uint8_t* bytes, std::size_t count);

// "1 row", "5 rows".
std::string count_text(std::int64_t n, const std::string& noun);

}  // namespace belfry
