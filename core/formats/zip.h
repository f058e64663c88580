// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/core/atomic_file.h"

// Zip archives as numpy.savez writes them: members stored or deflated, with 64-bit sizes where
// needed. Files are untrusted: every number is checked before memory is taken, contents against
// their CRC, and what is wrong is a DataError naming file and member.
namespace belfry::zip {

struct Member {
  std::string name;
  std::uint64_t offset = 0;  // of its local header
  std::uint64_t packed = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes unpacked
  std::uint32_t crc = 0;
  std::uint16_t method = 0;  // 0: stored, 8: deflated
};

// An archive open for reading; opening reads the directory only. One thread.
class Reader {
 public:
  explicit Reader(const std::string& path);
  const std::vector<Member>& members() const { return members_; }
  const Member* find(const std::string& name) const;
  // The member unpacked.
  std::vector<std::uint8_t> read(const Member& member) const;

 private:
  void read_directory(std::uint64_t at, std::uint64_t bytes, std::uint64_t entries);
  std::uint64_t content_at(const Member& member) const;
  std::vector<std::uint8_t> bytes_at(std::uint64_t offset, std::uint64_t bytes) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& expected = "") const;

  InputFile file_;
  std::vector<Member> members_;
};

}  // namespace belfry::zip
