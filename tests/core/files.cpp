// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "belfry/core/atomic_file.h"
#include "belfry/core/checksum.h"
#include "belfry/tests/catch.h"

using namespace belfry;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("belfry-files-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

std::string text_of(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Fails the call number `failing`, counted from 1 over all kinds of call, as a full disk does.
struct FailingOps : FileOps {
  int failing = 0, calls = 0;
  bool fails() {
    if (++calls != failing) return false;
    errno = ENOSPC;
    return true;
  }
  int create(const std::string& p) override { return fails() ? -1 : FileOps::create(p); }
  std::ptrdiff_t write(int fd, const void* d, std::size_t n) override {
    return fails() ? -1 : FileOps::write(fd, d, n > 3 ? 3 : n);  // and short writes
  }
  int sync(int fd) override { return fails() ? -1 : FileOps::sync(fd); }
  int rename(const std::string& a, const std::string& b) override {
    return fails() ? -1 : FileOps::rename(a, b);
  }
  int make_directory(const std::string& p) override {
    return fails() ? -1 : FileOps::make_directory(p);
  }
};

}  // namespace

TEST_CASE("A file is replaced as a whole, or keeps its content when any call fails") {
  const Folder folder;
  const std::string path = folder / "out.txt";
  write_file_atomically(path, "old");
  CHECK(text_of(path) == "old");
  int failures = 0;
  for (FailingOps ops; ++ops.failing;) {
    ops.calls = 0;
    try {
      write_file_atomically(path, "new text", ops);
      break;
    } catch (const CheckpointError& e) {
      ++failures;
      CHECK_THAT(e.what(), Catch::Contains("out.txt") && Catch::Contains("No space left"));
      CHECK(text_of(path) == "old");
    }
  }
  CHECK(failures == 6);  // create, three writes, sync, rename
  CHECK(text_of(path) == "new text");
  CHECK(folder.entries() == 1);
}

TEST_CASE("A directory appears whole or not at all") {
  const Folder folder;
  const std::string path = folder / "model";
  {
    AtomicDirectory out(path);
    out.write("a.txt", "a");
    CHECK(fs::exists(out.temporary_path() + "/a.txt"));
  }
  CHECK(folder.entries() == 0);
  FailingOps ops;
  ops.failing = 1;
  CHECK_THROWS_AS(AtomicDirectory(path, ops), CheckpointError);
  {
    AtomicDirectory out(path + "/");
    out.write("a.txt", "first");
    out.commit();
  }
  CHECK(text_of(path + "/a.txt") == "first");
  AtomicDirectory again(path);
  again.write("a.txt", "second");
  CHECK_THROWS_AS(again.commit(), CheckpointError);
  CHECK(text_of(path + "/a.txt") == "first");
  again.commit(true);
  CHECK(text_of(path + "/a.txt") == "second");
  CHECK(folder.entries() == 1);
}

TEST_CASE("Reading names the path and checks the size first") {
  const Folder folder;
  CHECK_THROWS_WITH(read_file(folder / "none"),
                    Catch::Contains("none") && Catch::Contains("No such file"));
  CHECK_THROWS_AS(read_file(folder / "none", 10, ErrorClass::data), DataError);
  CHECK_THROWS_WITH(read_file(folder.path.string()), Catch::Contains("regular file"));
  write_file_atomically(folder / "f", "12345");
  CHECK_THROWS_WITH(read_file(folder / "f", 4),
                    Catch::Contains("found 5 bytes, expected at most 4"));
  const InputFile file(folder / "f");
  std::byte two[2];
  file.read_at(3, two);
  CHECK(two[1] == std::byte{'5'});
  CHECK_THROWS_WITH(file.read_at(4, two), Catch::Contains("found 5 bytes, expected 6"));
}

TEST_CASE("XXH3 gives the published values, in pieces too") {
  CHECK(checksum({}) == 0x2d06800538d394c2ull);  // XXH3_64bits of nothing, seed 0
  const std::string text(1000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  Checksum pieces;
  pieces.update(bytes.first(1));
  pieces.update(bytes.subspan(1));
  CHECK(pieces.hex() == checksum_hex(bytes));
  CHECK(pieces.value() == checksum(bytes));
  CHECK(checksum_hex({}) == "2d06800538d394c2");
}
