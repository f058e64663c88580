// SPDX-License-Identifier: MIT
#include <sys/stat.h>
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

namespace {

// Keeps the order of the calls, and may have no exchange, as some file systems do.
struct RecordingOps : FileOps {
  std::vector<std::string> calls;
  int no_exchange = 0;     // errno
  bool no_folder = false;  // flushing a folder fails, from the commit's rename on
  int rename(const std::string& a, const std::string& b) override {
    const int result = FileOps::rename(a, b);
    if (result == 0) calls.push_back("rename");
    return result;
  }
  int exchange(const std::string& a, const std::string& b) override {
    if (no_exchange != 0) {
      errno = no_exchange;
      return -1;
    }
    calls.push_back("exchange");
    return FileOps::exchange(a, b);
  }
  int sync_directory(const std::string& p) override {
    calls.push_back("sync " + fs::path(p).filename().string());
    if (no_folder && calls.size() > 1) {
      errno = EIO;
      return -1;
    }
    return FileOps::sync_directory(p);
  }
  int remove_all(const std::string& p) override {
    calls.push_back("remove");
    return FileOps::remove_all(p);
  }
};

void write_model(const std::string& path, const std::string& text, FileOps& ops) {
  AtomicDirectory out(path, ops);
  out.write("a.txt", text);
  out.commit(true);
}

}  // namespace

TEST_CASE("A replaced directory: the new name is on the disk before the old content goes") {
  const Folder folder;
  const std::string path = folder / "model", top = "sync " + folder.path.filename().string();
  write_model(path, "first", system_files());
  RecordingOps ops;
  write_model(path, "second", ops);
  REQUIRE(ops.calls.size() == 4);
  ops.calls.erase(ops.calls.begin());  // of the temporary folder
  CHECK(ops.calls == std::vector<std::string>{"exchange", top, "remove"});
  CHECK(text_of(path + "/a.txt") == "second");
  RecordingOps failing;
  failing.no_folder = true;
  CHECK_THROWS_AS(write_model(path, "third", failing), CheckpointError);
  CHECK(folder.entries() == 2);  // the old content is not lost while the new may be
}

TEST_CASE("Without an exchange of the file system a directory is moved aside, or stays") {
  for (const int code : {EINVAL, ENOSYS, ENOTSUP}) {
    const Folder folder;
    const std::string path = folder / "model", top = "sync " + folder.path.filename().string();
    write_model(path, "first", system_files());
    RecordingOps ops;
    ops.no_exchange = code;
    write_model(path, "second", ops);
    REQUIRE(ops.calls.size() == 5);
    ops.calls.erase(ops.calls.begin());
    CHECK(ops.calls == std::vector<std::string>{"rename", "rename", top, "remove"});
    CHECK(text_of(path + "/a.txt") == "second");
    CHECK(folder.entries() == 1);
  }
  const Folder folder;
  const std::string path = folder / "model";
  write_model(path, "first", system_files());
  struct NoSecond : RecordingOps {  // the new content cannot take the place
    int rename(const std::string& a, const std::string& b) override {
      if (!a.ends_with(".old") && !b.ends_with(".old")) {
        errno = fs::exists(b) ? ENOTEMPTY : EIO;
        return -1;
      }
      return FileOps::rename(a, b);
    }
  } ops;
  ops.no_exchange = EINVAL;
  CHECK_THROWS_AS(write_model(path, "second", ops), CheckpointError);
  CHECK(text_of(path + "/a.txt") == "first");
  CHECK(folder.entries() == 1);
  RecordingOps full;
  full.no_exchange = ENOSPC;
  CHECK_THROWS_WITH(write_model(path, "second", full), Catch::Contains("No space left"));
  CHECK(text_of(path + "/a.txt") == "first");
}

TEST_CASE("Folders are flushed to their parents as they are made") {
  const Folder folder;
  RecordingOps ops;
  make_directories(folder / "a/b/", ops);
  CHECK(fs::is_directory(folder / "a/b"));
  CHECK(ops.calls == std::vector<std::string>{"sync " + folder.path.filename().string(), "sync a"});
  make_directories(folder / "a/b", ops);
  CHECK(ops.calls.size() == 2);
  write_file_atomically(folder / "f", "1");
  CHECK_THROWS_WITH(make_directories(folder / "f/g"), Catch::Contains(folder / "f"));
}

TEST_CASE("A file that moves to a path is written on there; before, the old content stands") {
  const Folder folder;
  const std::string path = folder / "log";
  write_file_atomically(path, "old");
  FileWriter writer(path + ".tmp", system_files());
  writer.write("kept ");
  CHECK(text_of(path) == "old");
  writer.move_to(path);
  writer.write("new");
  writer.finish();
  CHECK(text_of(path) == "kept new");
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

TEST_CASE("A pipe that nobody writes to is an error at once") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(folder / "pipe"), Catch::Contains("regular file"));
}

TEST_CASE("Where a file system flushes no folders there is nothing to wait for") {
  CHECK(system_files().sync_directory("/proc") == 0);  // fsync says EINVAL there
  CHECK(system_files().sync_directory("/proc/none") == -1);
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
