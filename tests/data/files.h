// SPDX-License-Identifier: MIT
// Small hand-made data files, and what a data set says about itself.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/data/dataset.h"
#include "belfry/tests/catch.h"

namespace belfry::test {

using Catch::Matchers::Contains;

// A folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("belfry-data-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string big_endian(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
inline std::string little_endian(std::uint32_t v) {
  return {static_cast<char>(v), static_cast<char>(v >> 8), static_cast<char>(v >> 16),
          static_cast<char>(v >> 24)};
}

// A gzip file of one stored deflate block: no compressor needed. At most 65535 bytes.
inline std::string gzip(const std::string& bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  const auto n = static_cast<std::uint32_t>(bytes.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + '\x01' + little_endian(n | (~n << 16)) +
         bytes + little_endian(~crc) + little_endian(n);
}

inline std::string idx_images(std::uint32_t n, std::uint32_t h, std::uint32_t w,
                              const std::string& pixels) {
  return big_endian(0x803) + big_endian(n) + big_endian(h) + big_endian(w) + pixels;
}
inline std::string idx_labels(std::uint32_t n, const std::string& labels) {
  return big_endian(0x801) + big_endian(n) + labels;
}

// The message of the E that f throws; anything else fails the test.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

template <class F>
std::string data_error(F&& f) {
  return error_of<DataError>(std::forward<F>(f));
}

// All rows of an f32 field and an i32 label.
struct Rows {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  bool operator==(const Rows&) const = default;
};

inline Rows read_rows(const Dataset& set, std::vector<std::int64_t> which) {
  Rows out;
  out.values.resize(which.size() * static_cast<std::size_t>(set.fields()[0].shape.size()));
  out.labels.resize(which.size());
  void* const buffers[] = {out.values.data(), out.labels.data()};
  set.read(which, buffers);
  return out;
}

inline Rows read_all(const Dataset& set) {
  std::vector<std::int64_t> which(static_cast<std::size_t>(set.rows()));
  std::iota(which.begin(), which.end(), std::int64_t{0});
  return read_rows(set, which);
}

inline std::vector<std::int64_t> label_counts(const Dataset& set) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(set.classes()));
  for (const std::int32_t l : read_all(set).labels) ++counts.at(static_cast<std::size_t>(l));
  return counts;
}

}  // namespace belfry::test
