// SPDX-License-Identifier: MIT
// Every file cut at every byte (larger ones at fewer) and with every byte changed loads or throws
// DataError, and no single request for memory exceeds what the reader's 4 MiB steps explain.
#include <atomic>
#include <cstdlib>
#include <new>

#include "belfry/data/byte_file.h"
#include "belfry/data/datasets/cifar/cifar.h"
#include "belfry/data/datasets/csv/csv.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/tests/data/files.h"

namespace {

std::atomic<std::size_t> largest{0};

void* counted(std::size_t bytes) noexcept {
  if (bytes > largest.load()) largest.store(bytes);
  return std::malloc(bytes != 0 ? bytes : 1);
}

void* counted_or_throw(std::size_t bytes) {
  if (void* p = counted(bytes)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }

using namespace belfry;
using namespace belfry::test;

namespace {

// How many of the tries loaded; other exceptions than DataError escape and fail the test.
struct Tally {
  int loaded = 0, refused = 0;
  template <class F>
  void attempt(F&& load) {
    try {
      const std::shared_ptr<const Dataset> set = load();
      read_all(*set);
      ++loaded;
    } catch (const DataError&) {
      ++refused;
    }
  }
};

constexpr std::size_t kMostBytes = std::size_t{9} << 20;

template <class Open>
Tally cut_everywhere(const TempFolder& dir, const std::string& bytes, Open open) {
  Tally tally;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    // Inside the pixels of a larger file one cut is like the next.
    const bool inside = n > 64 && n + 64 < bytes.size() && (n < 3060 || n > 3090);
    if (inside && bytes.size() > 1000 && n % 31 != 0) continue;
    const auto file = dir.write("cut", bytes.substr(0, n));
    tally.attempt([&] { return open(file); });
  }
  return tally;
}

template <class Open>
Tally flip_everywhere(const TempFolder& dir, const std::string& bytes, std::size_t until,
                      Open open) {
  Tally tally;
  for (std::size_t at = 0; at < std::min(until, bytes.size()); ++at)
    for (const int mask : {0x01, 0x10, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      const auto file = dir.write("flip", changed);
      tally.attempt([&] { return open(file); });
    }
  return tally;
}

}  // namespace

TEST_CASE("damage: IDX images and labels, plain and gzip") {
  TempFolder dir;
  const std::string images = idx_images(3, 2, 2, "abcdefghijkl"),
                    labels = idx_labels(3, std::string("\x02\x00\x01", 3));
  const auto good_images = dir.write("i", images), good_labels = dir.write("l", labels);
  const auto open_images = [&](const std::string& f) { return idx(f, good_labels); };
  const auto open_labels = [&](const std::string& f) {
    return idx(good_images, f, {.labels = {.classes = 3}});
  };
  largest = 0;
  for (const bool zipped : {false, true}) {
    CAPTURE(zipped);
    const std::string i = zipped ? gzip(images) : images, l = zipped ? gzip(labels) : labels;
    CHECK(cut_everywhere(dir, i, open_images).loaded == 0);
    CHECK(cut_everywhere(dir, l, open_labels).loaded == 0);
    const Tally changed = flip_everywhere(dir, i, i.size(), open_images);
    CHECK(changed.refused > 0);
    if (!zipped) CHECK(changed.loaded == 12 * 4);  // each changed pixel, no changed header
    if (zipped) CHECK(changed.loaded < 40);        // time, flags and system of the gzip header
    flip_everywhere(dir, l, l.size(), open_labels);
  }
  CHECK(largest < kMostBytes);
}

TEST_CASE("damage: CIFAR, plain and gzip") {
  TempFolder dir;
  std::string bytes;
  for (int r = 0; r < 2; ++r)
    bytes += std::string(1, static_cast<char>(r)) + std::string(3072, static_cast<char>('a' + r));
  const auto open = [](const std::string& f) { return cifar({f}); };
  largest = 0;
  CHECK(cut_everywhere(dir, bytes, open).loaded == 1);  // at the end of the first record
  CHECK(cut_everywhere(dir, gzip(bytes), open).loaded == 0);
  const Tally labels = flip_everywhere(dir, bytes, 1, open);
  CHECK(labels.loaded == 1);  // 0 ^ 1; the others are no class
  CHECK(labels.refused == 3);
  flip_everywhere(dir, gzip(bytes), 40, open);
  CHECK(largest < kMostBytes);
}

TEST_CASE("damage: CSV, plain and gzip") {
  TempFolder dir;
  const std::string text = "\xef\xbb\xbf\"x, 1\",x2,y\r\n1.5e3,2,0\r\n\"3\",-4,1\r\n";
  const auto open = [](const std::string& f) { return csv(f); };
  largest = 0;
  const Tally cut = cut_everywhere(dir, text, open);
  CHECK(cut.loaded > 0);  // after a whole line
  CHECK(cut.refused > 20);
  CHECK(cut_everywhere(dir, gzip(text), open).loaded == 0);
  CHECK(flip_everywhere(dir, text, text.size(), open).refused > 50);
  flip_everywhere(dir, gzip(text), 1000, open);
  CHECK(largest < kMostBytes);
}

TEST_CASE("B34: header-only CSV, IDX with count 0 and files of 0 bytes say 0 rows and the file") {
  TempFolder dir;
  CHECK_THAT(data_error([&] { csv(dir.write("h.csv", "x1,x2,y\n")); }),
             Contains("h.csv: ") && Contains("0 rows"));
  CHECK_THAT(data_error([&] { csv(dir.write("e.csv", "")); }),
             Contains("e.csv: ") && Contains("0 rows"));
  CHECK_THAT(data_error([&] { csv(dir.write("b.csv", "\n\n \n")); }),
             Contains("b.csv: ") && Contains("0 rows"));
  const auto images = dir.write("i0", idx_images(0, 28, 28, "")),
             labels = dir.write("l0", idx_labels(0, ""));
  CHECK_THAT(data_error([&] { idx(images, labels); }), Contains("l0: ") && Contains("0 rows"));
  const auto one = dir.write("l1", idx_labels(1, std::string(1, '\0')));
  CHECK_THAT(data_error([&] { idx(images, one); }), Contains("i0: ") && Contains("0 rows"));
  CHECK_THAT(data_error([&] { idx(dir.write("z", ""), one); }),
             Contains("z: ") && Contains("0 rows"));
  CHECK_THAT(data_error([&] { idx(dir.write("z.gz", gzip("")), one); }),
             Contains("z.gz: ") && Contains("0 rows"));
}

TEST_CASE(
    "gzip that is read as a whole: members, a tail, damage and cuts are as with small reads") {
  TempFolder dir;
  std::string plain;
  for (int i = 0; i < 60000; ++i) plain += static_cast<char>(i * 31 >> 3);
  const std::string one = gzip(plain);
  enum Way { pieces, whole, block };
  // In small pieces, which zlib inflates, all at once, and as memory that is handed over.
  const auto read = [&](const std::string& bytes, Way way) {
    const std::string path = dir.write("f.gz", bytes);
    try {
      ByteFile file(path);
      std::vector<std::uint8_t> out(3);
      file.read(out.data(), 3);  // a header first
      if (way == whole) file.append(out, std::uint64_t{1} << 40);
      for (std::uint8_t c = 0; way == pieces && file.read(&c, 1) == 1;) out.push_back(c);
      if (way == block) {
        const ByteBlock rest = file.rest(std::uint64_t{1} << 40);
        out.insert(out.end(), rest.data(), rest.data() + rest.size());
      }
      CHECK(file.skip(10) == 0);
      return std::string(out.begin(), out.end());
    } catch (const DataError& e) {
      return std::string(e.what());
    }
  };
  CHECK(read(one, whole) == plain);
  CHECK(read(plain, block) == plain);
  std::string zeros = one, wrong = one;
  zeros.replace(zeros.size() - 4, 4, std::string(4, '\0'));           // the size it says at its end
  wrong[one.size() - 6] = static_cast<char>(~wrong[one.size() - 6]);  // its check sum
  std::vector<std::string> files{
      one, one + one, one + "tail", zeros, wrong, gzip(""), one + std::string(8, '\0')};
  for (const std::size_t at : {std::size_t{12}, std::size_t{40}, one.size() / 2, one.size() - 1}) {
    files.push_back(one.substr(0, at));
    files.push_back(one);
    files.back()[at] = static_cast<char>(~files.back()[at]);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const std::string expected = read(files[i], pieces);
    CHECK(read(files[i], whole) == expected);
    CHECK(read(files[i], block) == expected);
  }
  CHECK(read(one + one, whole) == plain + plain);
  CHECK_THAT(read(wrong, whole), Contains("damaged"));
  CHECK_THAT(read(wrong, block), Contains("damaged"));
}

TEST_CASE("what is inflated is handed over without a copy; parts of it stay where they are") {
  TempFolder dir;
  std::string plain;
  for (int i = 0; i < 60000; ++i) plain += static_cast<char>(i * 31 >> 3);
  ByteFile file(dir.write("f.gz", gzip(plain)));
  ByteBlock all = file.rest(std::uint64_t{1} << 40);
  const std::uint8_t* const start = all.data();
  ByteFile again(dir.path("f.gz"));
  std::uint8_t head[3];
  again.read(head, 3);
  const ByteBlock first = again.rest(std::uint64_t{5} << 20);
  CHECK(first.size() == plain.size() - 3);
  CHECK(again.skip(1) == 0);
  all.cut(10, 59000);
  CHECK(all.data() == start + 10);
  all.cut(1, 100);  // little of much: the rest of the memory is given back
  CHECK(all.data() != start + 11);
  CHECK(std::string(all.data(), all.data() + all.size()) == plain.substr(11, 100));
  // Two parts of one file lie side by side: nothing was moved.
  ByteFile parts(dir.path("f.gz"));
  parts.read(head, 3);
  std::vector<std::uint8_t> none;
  const ByteBlock left = parts.rest(std::uint64_t{1} << 40), right = parts.rest(1);
  CHECK(right.data() == left.data() + left.size());
}
