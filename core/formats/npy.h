// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The npy format of numpy, versions 1 to 3: magic, version, header length, a Python dictionary,
// values. Files are untrusted: what is wrong is a DataError naming file, found and expected;
// nothing is executed, and arrays of objects are refused.
namespace belfry::numpy {

struct Header {
  std::string type;      // "<f4"
  char kind = 'f';       // f, i, u, or b for booleans
  std::size_t item = 0;  // bytes of a value
  bool big_endian = false;
  bool fortran = false;  // the first axis varies fastest
  std::vector<std::int64_t> shape;
  std::uint64_t data_at = 0;  // where the values begin
  std::uint64_t bytes = 0;    // of all values
};

constexpr std::size_t kStart = 12;  // bytes that say how long the header is

// Where the values begin, from the first kStart bytes of a file (fewer where it ends earlier).
std::uint64_t header_bytes(std::span<const std::uint8_t> start, const std::string& file);

// From all bytes before the values.
Header parse_header(std::span<const std::uint8_t> header, const std::string& file);

// Magic to header of version 1 for C order: `type` such as "<f4"; a multiple of 64 bytes.
std::string encode_header(const std::string& type, const std::vector<std::int64_t>& shape);

}  // namespace belfry::numpy
