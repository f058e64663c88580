// SPDX-License-Identifier: MIT
#include "belfry/core/formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <set>

namespace belfry::zip {
namespace {

constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint32_t kCentral = 0x02014b50, kLocal = 0x04034b50;
constexpr std::uint64_t kEndBytes = 22, kLongestComment = 65535;
constexpr std::uint64_t kDeflateRatio = 1032;  // zlib's documented limit
constexpr std::size_t kStep = std::size_t{4} << 20;

std::uint64_t number(const std::uint8_t* p, int bytes) {
  std::uint64_t v = 0;
  for (int i = bytes; i-- > 0;) v = v << 8 | p[i];
  return v;
}

// The 64-bit values of a central header's extra field, for those that were too large for 32 bits.
void read_extra(const std::uint8_t* p, std::size_t bytes, Member& m) {
  while (bytes >= 4) {
    const std::uint64_t id = number(p, 2), size = number(p + 2, 2);
    if (size > bytes - 4) return;
    if (id == 1) {
      const std::uint8_t* at = p + 4;
      std::uint64_t left = size;
      for (std::uint64_t* v : {&m.size, &m.packed, &m.offset}) {
        if (*v != 0xffffffffu || left < 8) continue;
        *v = number(at, 8);
        at += 8;
        left -= 8;
      }
    }
    p += 4 + size;
    bytes -= 4 + static_cast<std::size_t>(size);
  }
}

struct Inflate {
  z_stream z{};
  Inflate() { ok = inflateInit2(&z, -15) == Z_OK; }
  ~Inflate() {
    if (ok) inflateEnd(&z);
  }
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;
  bool ok = false;
};

// Exactly `size` bytes, or fewer where the data is damaged. Memory follows what comes out.
std::vector<std::uint8_t> inflated(std::vector<std::uint8_t>& packed, std::uint64_t size) {
  std::vector<std::uint8_t> out;
  Inflate stream;
  if (!stream.ok) return out;
  std::size_t taken = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    if (stream.z.avail_in == 0) {
      const std::size_t step = std::min(packed.size() - taken, kStep);
      stream.z.next_in = packed.data() + taken;
      stream.z.avail_in = static_cast<uInt>(step);
      taken += step;
    }
    const std::size_t old = out.size();
    const std::size_t room =
        std::min<std::uint64_t>(size - old + 1, std::clamp<std::size_t>(old, 1 << 16, kStep));
    out.resize(old + room);
    stream.z.next_out = out.data() + old;
    stream.z.avail_out = static_cast<uInt>(room);
    code = inflate(&stream.z, Z_NO_FLUSH);
    out.resize(old + room - stream.z.avail_out);
    if (out.size() > size) break;
    if (code == Z_BUF_ERROR && taken < packed.size()) code = Z_OK;
  }
  if (code != Z_STREAM_END) out.clear();
  return out;
}

}  // namespace

void Reader::refuse(const std::string& what, const std::string& found,
                    const std::string& expected) const {
  throw DataError(ErrorText{.what = what,
                            .found = found,
                            .expected = expected,
                            .fix = "the archive is damaged or cut; write or fetch it again",
                            .file = file_.path()});
}

std::vector<std::uint8_t> Reader::bytes_at(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > file_.size() || bytes > file_.size() - offset)
    refuse("the zip archive points past its end",
           std::to_string(offset) + " + " + std::to_string(bytes) + " bytes",
           "at most " + std::to_string(file_.size()));
  std::vector<std::uint8_t> out(static_cast<std::size_t>(bytes));
  file_.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

Reader::Reader(const std::string& path) : file_(path, ErrorClass::data) {
  const std::uint64_t tail = std::min(file_.size(), kEndBytes + kLongestComment);
  const std::vector<std::uint8_t> end = bytes_at(file_.size() - tail, tail);
  std::size_t at = end.size();
  for (std::size_t i = kEndBytes; i <= end.size() && at == end.size(); ++i) {
    const std::uint8_t* p = end.data() + end.size() - i;
    if (number(p, 4) == kEnd && number(p + 20, 2) == i - kEndBytes) at = end.size() - i;
  }
  if (at == end.size())
    refuse("not a zip archive", std::to_string(file_.size()) + " bytes",
           "one with its directory at the end");
  const std::uint8_t* p = end.data() + at;
  std::uint64_t entries = number(p + 10, 2), bytes = number(p + 12, 4), offset = number(p + 16, 4);
  if (number(p + 4, 2) != 0 && number(p + 4, 2) != 0xffffu)
    refuse("the zip archive is one of several parts", "", "a single file");
  const std::uint64_t here = file_.size() - tail + at;
  if (entries == 0xffffu || bytes == 0xffffffffu || offset == 0xffffffffu) {
    if (here < 20) refuse("the zip archive's 64-bit directory is missing");
    const auto locator = bytes_at(here - 20, 20);
    if (number(locator.data(), 4) != kLocator64)
      refuse("the zip archive's 64-bit directory is missing");
    const auto wide = bytes_at(number(locator.data() + 8, 8), 56);
    if (number(wide.data(), 4) != kEnd64) refuse("the zip archive's 64-bit directory is missing");
    entries = number(wide.data() + 32, 8);
    bytes = number(wide.data() + 40, 8);
    offset = number(wide.data() + 48, 8);
  }
  read_directory(offset, bytes, entries);
}

void Reader::read_directory(std::uint64_t at, std::uint64_t bytes, std::uint64_t entries) {
  const std::vector<std::uint8_t> all = bytes_at(at, bytes);
  std::set<std::string> names;
  std::size_t from = 0;
  for (std::uint64_t e = 0; e < entries; ++e) {
    const std::uint8_t* p = all.data() + from;
    const std::size_t left = all.size() - from;
    if (left < 46 || number(p, 4) != kCentral)
      refuse("the zip archive's directory is damaged", std::to_string(e) + " members",
             std::to_string(entries));
    const std::size_t name = number(p + 28, 2), extra = number(p + 30, 2);
    const std::size_t whole = 46 + name + extra + number(p + 32, 2);
    if (whole > left) refuse("the zip archive's directory is cut");
    Member m{.name = std::string(reinterpret_cast<const char*>(p) + 46, name),
             .offset = number(p + 42, 4),
             .packed = number(p + 20, 4),
             .size = number(p + 24, 4),
             .crc = static_cast<std::uint32_t>(number(p + 16, 4)),
             .method = static_cast<std::uint16_t>(number(p + 10, 2))};
    if ((p[8] & 1) != 0) refuse("member '" + m.name + "' is encrypted", "", "a plain archive");
    read_extra(p + 46 + name, extra, m);
    if (!names.insert(m.name).second) refuse("member '" + m.name + "' occurs twice");
    members_.push_back(std::move(m));
    from += whole;
  }
}

const Member* Reader::find(const std::string& name) const {
  const auto it = std::find_if(members_.begin(), members_.end(),
                               [&](const Member& m) { return m.name == name; });
  return it == members_.end() ? nullptr : &*it;
}

// Behind the local header, whose name and extra field may be longer than the directory's.
std::uint64_t Reader::content_at(const Member& m) const {
  const std::vector<std::uint8_t> head = bytes_at(m.offset, 30);
  if (number(head.data(), 4) != kLocal) refuse("member '" + m.name + "' is not where it should be");
  return m.offset + 30 + number(head.data() + 26, 2) + number(head.data() + 28, 2);
}

std::vector<std::uint8_t> Reader::read(const Member& m) const {
  const std::string title = "member '" + m.name + "'";
  if (m.method != 0 && m.method != 8)
    refuse(title + " is packed in another way", "method " + std::to_string(m.method),
           "stored or deflated");
  if (m.method == 0 ? m.packed != m.size : m.size / kDeflateRatio > m.packed)
    refuse(title + " has sizes that do not belong together",
           std::to_string(m.packed) + " bytes packed", std::to_string(m.size) + " bytes unpacked");
  std::vector<std::uint8_t> out = bytes_at(content_at(m), m.packed);
  if (m.method == 8) out = inflated(out, m.size);
  if (out.size() != m.size)
    refuse(title + " is damaged", std::to_string(out.size()) + " bytes",
           std::to_string(m.size) + " bytes");
  uLong crc = crc32(0, nullptr, 0);
  for (std::size_t at = 0; at < out.size(); at += kStep)
    crc = crc32(crc, out.data() + at, static_cast<uInt>(std::min(kStep, out.size() - at)));
  if (crc != m.crc) refuse(title + " is damaged: its check sum is wrong");
  return out;
}

}  // namespace belfry::zip
