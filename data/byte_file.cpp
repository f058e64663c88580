// SPDX-License-Identifier: MIT
#include "belfry/data/byte_file.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "belfry/core/error.h"

namespace belfry {
namespace {

constexpr std::size_t kFirstStep = std::size_t{64} << 10;
constexpr std::size_t kStep = std::size_t{4} << 20;
constexpr std::uint64_t kDeflateRatio =
    1032;  // zlib's documented limit, "Maximum Compression Factor"

[[noreturn]] void throw_file(const std::string& path, std::string what, std::string fix) {
  throw DataError(ErrorText{.what = std::move(what), .fix = std::move(fix), .file = path});
}

std::uint64_t checked_size(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status))
    throw_file(path, "the data file does not exist",
               "check the path; it is relative to the config file");
  if (std::filesystem::is_directory(status))
    throw_file(path, "the data file is a folder", "name a file inside it");
  if (!std::filesystem::is_regular_file(status))
    throw_file(path, "the data file is not a regular file", "copy the data into a file");
  const auto size = std::filesystem::file_size(path, code);
  if (code) throw_file(path, "the size of the data file cannot be read: " + code.message(), "");
  return size;
}

}  // namespace

void ByteFile::Close::operator()(gzFile_s* file) const noexcept { gzclose_r(file); }

ByteFile::ByteFile(const std::string& path) : path_(path), file_bytes_(checked_size(path)) {
  errno = 0;
  file_.reset(gzopen(path.c_str(), "rb"));
  if (!file_) {
    const int code = errno;
    throw_file(path, "the data file cannot be opened: " + std::string(std::strerror(code)), "");
  }
  gzbuffer(file_.get(), 128u << 10);
  compressed_ = gzdirect(file_.get()) == 0 && file_bytes_ > 0;
}

// One whole gzip member by libdeflate, about twice as fast as zlib. The size it says at its end is
// only tried. Whatever is odd (several members, bytes behind them, damage, a cut end, large files)
// is left to zlib, which goes on where it stands and knows what to say.
void ByteFile::inflate_whole() {
  constexpr std::uint64_t kMost = std::uint64_t{512} << 20;
  if (!compressed_ || whole_ || file_bytes_ < 18 || file_bytes_ > kMost) return;
  const auto length = static_cast<std::size_t>(file_bytes_);
  HostBuffer memory(length / sizeof(float) + 1);
  auto* const packed = reinterpret_cast<std::uint8_t*>(memory.data());
  std::ifstream file(path_, std::ios::binary);
  file.read(reinterpret_cast<char*>(packed), static_cast<std::streamsize>(length));
  if (!file) return;
  std::uint64_t size = 0;
  for (std::size_t k = 4; k > 0; --k) size = size << 8 | packed[length - 5 + k];
  if (size > kMost || size > max_bytes()) return;
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflater(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  const auto out = std::make_shared<HostBuffer>(static_cast<std::size_t>(size) / sizeof(float) + 1);
  std::size_t taken = 0, given = 0;
  if (!inflater ||
      libdeflate_gzip_decompress_ex(inflater.get(), packed, length, out->data(),
                                    static_cast<std::size_t>(size), &taken,
                                    &given) != LIBDEFLATE_SUCCESS ||
      taken != length || given != size || position_ > given)
    return;
  whole_ = out;
  whole_bytes_ = given;
}

std::size_t ByteFile::read_whole(void* out, std::size_t bytes) {
  const std::size_t n = std::min(bytes, whole_bytes_ - position_);
  if (n > 0) std::memcpy(out, reinterpret_cast<const std::uint8_t*>(whole_->data()) + position_, n);
  position_ += n;
  return n;
}

std::size_t ByteFile::read(void* out, std::size_t bytes) {
  if (whole_) return read_whole(out, bytes);
  auto* at = static_cast<std::uint8_t*>(out);
  std::size_t done = 0;
  while (done < bytes) {
    const auto step = static_cast<unsigned>(std::min(bytes - done, kStep));
    const int got = gzread(file_.get(), at + done, step);
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR)
      throw_file(path_, "the gzip data ends too early", "the file was cut; fetch it again");
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw_file(path_,
                 "the file cannot be read: " + std::string(text != nullptr ? text : "zlib error"),
                 compressed_ ? "the gzip data is damaged; fetch the file again" : "");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  position_ += done;
  return done;
}

std::uint64_t ByteFile::append(std::vector<std::uint8_t>& out, std::uint64_t bytes) {
  if (bytes > kStep) inflate_whole();
  std::uint64_t total = 0;
  while (total < bytes) {
    const std::size_t most = whole_ ? std::max<std::size_t>(whole_bytes_ - position_, 1)
                                    : std::clamp(out.size(), kFirstStep, kStep);
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - total, most));
    const std::size_t old = out.size();
    out.resize(old + step);
    const std::size_t got = read(out.data() + old, step);
    out.resize(old + got);
    total += got;
    if (got < step) break;
  }
  return total;
}

ByteBlock ByteFile::rest(std::uint64_t bytes) {
  if (bytes > kStep) inflate_whole();
  if (whole_) {
    const std::size_t first = position_;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, whole_bytes_ - position_));
    position_ += count;
    return {whole_, first, count};
  }
  if (compressed_) {
    std::vector<std::uint8_t> out;
    append(out, bytes);
    return ByteBlock(std::move(out));
  }
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(
      bytes, file_bytes_ - std::min<std::uint64_t>(position_, file_bytes_)));
  const auto memory = std::make_shared<HostBuffer>(most / sizeof(float) + 1);
  return {memory, 0, read(memory->data(), most)};
}

std::uint64_t ByteFile::skip(std::uint64_t limit) {
  std::array<std::uint8_t, 16384> scratch;
  std::uint64_t total = 0;
  while (total < limit) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(limit - total, scratch.size()));
    const std::size_t got = read(scratch.data(), step);
    total += got;
    if (got < step) break;
  }
  return total;
}

std::uint64_t ByteFile::max_bytes() const noexcept {
  if (!compressed_) return file_bytes_;
  if (file_bytes_ > std::numeric_limits<std::uint64_t>::max() / kDeflateRatio)
    return std::numeric_limits<std::uint64_t>::max();
  return file_bytes_ * kDeflateRatio;
}

std::string path_in(const std::string& base, const std::string& path) {
  const std::filesystem::path p(path);
  return base.empty() || p.is_absolute() ? path : (std::filesystem::path(base) / p).string();
}

std::string guess_format(const std::uint8_t* bytes, std::size_t count) {
  struct Known {
    std::string_view start, name;
  };
  // Long enough for tokens not to begin like that, short enough for a header's first 4 bytes.
  static constexpr std::string_view kPage = "an HTML or XML page";
  static constexpr Known kKnown[] = {{"\x1f\x8b\x08", "data that was compressed twice"},
                                     {"PK\x03\x04", "a zip archive"},
                                     {"BZh", "bzip2 data"},
                                     {"\xfd"
                                      "7zXZ",
                                      "xz data"},
                                     {"\x28\xb5\x2f\xfd", "zstd data"},
                                     {"<!DO", kPage},
                                     {"<!do", kPage},
                                     {"<htm", kPage},
                                     {"<HTM", kPage},
                                     {"<?xm", kPage},
                                     {"\x93NUMPY", "a npy array"},
                                     {"\x89PNG", "a PNG image"},
                                     {"\x89HDF", "an HDF5 file"},
                                     {"version https://git-lfs", "a Git LFS pointer"}};
  const std::string_view head(reinterpret_cast<const char*>(bytes), count);
  for (const Known& k : kKnown)
    if (head.substr(0, k.start.size()) == k.start) return std::string(k.name);
  return "";
}

std::string count_text(std::int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace belfry
