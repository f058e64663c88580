// SPDX-License-Identifier: MIT
#pragma once
// What the fuzzers share. A fuzzer is one file: LLVMFuzzerTestOneInput, and a custom mutator where
// structure matters. Everything but the typed errors it names is a finding.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "belfry/core/error.h"

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

}  // namespace belfry::fuzz
