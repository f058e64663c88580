// SPDX-License-Identifier: MIT
#pragma once
// What the fuzzers share. A fuzzer is one file: LLVMFuzzerTestOneInput, and a custom mutator where
// structure matters. Everything but the typed errors it names is a finding.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/data/dataset.h"
#include "belfry/data/token_windows.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max);

namespace belfry::fuzz {

// libFuzzer takes an abort for a crash and keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: this does not hold: %s\n", what);
  std::abort();
}

// Runs `body`; true when it did not throw. Lets pass the errors `Allowed`, with a message; with
// BELFRY_FUZZ_SHOW set it prints them, to see what becomes of one input.
template <class... Allowed, class F>
bool accepts(F&& body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    const bool allowed = (... || (dynamic_cast<const Allowed*>(&e) != nullptr));
    if (!allowed) std::fprintf(stderr, "fuzz: %s\n", e.what());
    require(allowed, "the error's class is one of those that fit");
    require(!e.text().what.empty(), "an error says what is wrong");
    static const bool show = std::getenv("BELFRY_FUZZ_SHOW") != nullptr;
    if (show) std::fprintf(stderr, "%s\n", e.what());
    return false;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file in memory with a path, for readers that take one.
class File {
 public:
  explicit File(std::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
    require(fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == ssize_t(bytes.size()),
            "memory for the file");
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

inline std::string gzip(std::string_view plain) {
  z_stream z{};
  require(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
  std::string out(deflateBound(&z, plain.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  require(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// `plain` as the reader gets it: as it is, as gzip, or as gzip that is damaged or cut.
enum class Pack : std::uint8_t { plain, gzip, damaged, cut };
inline std::string packed(std::string_view plain, Pack how) {
  if (how == Pack::plain) return std::string(plain);
  std::string out = gzip(plain);
  if (how == Pack::damaged) out[(plain.size() * 7 + 3) % out.size()] ^= 0x10;
  if (how == Pack::cut) out.resize(out.size() - 1 - plain.size() % (out.size() - 1));
  return out;
}

// Custom mutators: one part of an input of `used` bytes, of which there may be `max`.
inline void mutate(std::string& part, std::size_t used, std::size_t max) {
  const std::size_t size = part.size(),
                    room = max > used ? std::min<std::size_t>(max - used, 256) : 0;
  part.resize(std::max<std::size_t>(size + room, 1));
  part.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(part.data()), size, part.size()));
}

// What a custom mutator returns.
inline std::size_t put(const std::string& input, std::uint8_t* data, std::size_t max) {
  const std::size_t n = std::min(input.size(), max);
  std::memcpy(data, input.data(), n);
  return n;
}

inline WindowOptions windows(std::uint8_t flags, std::uint8_t context) {
  WindowOptions out;
  out.context = context;
  if ((flags & 4) != 0) out.first = 3;
  if ((flags & 8) != 0) out.count = 20;
  if ((flags & 16) != 0) out.part = (flags & 32) != 0 ? "train" : "validation";
  if ((flags & 64) != 0) out.holdout = 0.5;
  return out;
}

// Reads all rows of an accepted data set and asks for all it says of itself.
inline void use(const Dataset& set) {
  require(set.rows() > 0, "an accepted data set has rows");
  require(!set.describe().empty(), "a data set describes itself");
  set.warning();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(set.rows()));
  std::iota(rows.rbegin(), rows.rend(), std::int64_t{0});
  std::vector<std::vector<std::byte>> buffers;
  std::vector<void*> out;
  for (const Field& f : set.fields()) {
    buffers.emplace_back(rows.size() * static_cast<std::size_t>(f.shape.size()) * size_of(f.dtype));
    out.push_back(buffers.back().data());
  }
  set.read(rows, out);
}

// The same of a shuffled epoch.
inline void use_shuffled(const Dataset& set) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(set.rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<std::vector<std::byte>> buffers;
  std::vector<void*> out;
  for (const Field& f : set.fields()) {
    buffers.emplace_back(rows.size() * static_cast<std::size_t>(f.shape.size()) * size_of(f.dtype));
    out.push_back(buffers.back().data());
  }
  set.read_epoch(rows, {.seed = 7, .number = 3, .shuffled = true}, out);
}

}  // namespace belfry::fuzz
