// SPDX-License-Identifier: MIT
// Arrays of numpy: files as numpy 2.4 wrote them, every type and order, and what is refused.
#include "belfry/core/formats/npy.h"

#include <cmath>
#include <cstring>

#include "belfry/core/document.h"
#include "belfry/core/formats/zip.h"
#include "belfry/data/datasets/npy/npy.h"
#include "belfry/tests/data/files.h"
#include "belfry/tests/hex.h"

using namespace belfry;
using namespace belfry::test;

namespace {

// numpy.savez_compressed(x=numpy.asfortranarray(numpy.arange(12, dtype='>i2').reshape(2, 3, 2)),
// y=numpy.array([1, 0], dtype='u1'))
const std::string kPacked = from_hex(
    "504b03042d0000000800000021007413503dffffffffffffffff05001400782e6e7079010010009800000000000000"
    "60"
    "000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9769a4aea3a09e965f54529498179f5f9492"
    "0a"
    "120f292a4d050a17672416a402b91a463a0ac63a0a469a3a0ab50a64022e060606360626060e0616062e0646067606"
    "66"
    "064e0656066e00504b03042d0000000800000021004e636bb1ffffffffffffffff05001400792e6e70790100100082"
    "00"
    "00000000000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e536aa8aea3a09e965f5452"
    "94"
    "98179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14002e460600504b01022d032d00000008"
    "00"
    "000021007413503d6000000098000000050000000000000000000000800100000000782e6e7079504b01022d032d00"
    "00"
    "000800000021004e636bb14600000082000000050000000000000000000000800197000000792e6e7079504b050600"
    "00"
    "00000200020066000000140100000000");

// numpy.savez(x=numpy.array([[.5], [1.5]], dtype='f2'), y=numpy.array([1, 0]))
const std::string kStored = from_hex(
    "504b03042d000000000000002100b72748c2ffffffffffffffff05001400782e6e7079010010008400000000000000"
    "84"
    "00000000000000934e554d5059010076007b276465736372273a20273c6632272c2027666f727472616e5f6f726465"
    "72"
    "273a2046616c73652c20277368617065273a2028322c2031292c207d20202020202020202020202020202020202020"
    "20"
    "20202020202020202020202020202020202020202020202020202020202020202020202020200a0038003e504b0304"
    "2d"
    "00000000000000210071fb39abffffffffffffffff05001400792e6e70790100100090000000000000009000000000"
    "00"
    "0000934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046"
    "61"
    "6c73652c20277368617065273a2028322c292c207d2020202020202020202020202020202020202020202020202020"
    "20"
    "2020202020202020202020202020202020202020202020202020202020202020200a01000000000000000000000000"
    "00"
    "0000504b01022d032d000000000000002100b72748c284000000840000000500000000000000000000008001000000"
    "00"
    "782e6e7079504b01022d032d00000000000000210071fb39ab90000000900000000500000000000000000000008001"
    "bb"
    "000000792e6e7079504b0506000000000200020066000000820100000000");

template <class T>
std::string raw(const std::vector<T>& values, bool swapped = false) {
  std::string out;
  for (T v : values) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &v, sizeof v);
    if (swapped) std::reverse(bytes, bytes + sizeof(T));
    out.append(bytes, sizeof(T));
  }
  return out;
}

template <class T>
std::string array(const std::string& type, const std::vector<std::int64_t>& shape,
                  const std::vector<T>& values) {
  return numpy::encode_header(type, shape) + raw(values, type[0] == '>');
}

std::string fortran(std::string file) { return file.replace(file.find("False"), 5, "True "); }

// A file whose header is `text`, padded as numpy pads.
std::string with_header(std::string text, const std::string& values = "", char version = 1) {
  text.resize((12 + text.size() + 63) / 64 * 64 - 12, ' ');
  const std::size_t n = text.size() + (version == 1 ? 2 : 0);
  if (version == 1) text += "  ";
  std::string out = "\x93NUMPY" + std::string{version, '\0', char(n & 255), char(n >> 8)};
  if (version != 1) out += std::string(2, '\0');
  return out + text + values;
}

const std::string kLabels = array<std::int64_t>("<i8", {2}, {1, 0});

}  // namespace

TEST_CASE("npy: archives that numpy wrote, packed and stored, big-endian and in Fortran's order") {
  TempFolder dir;
  const auto packed = npz(dir.write("p.npz", kPacked));
  CHECK(packed->describe() == "npy: 2 rows, image [3, 2] f32, label i32, kept as >i2, 2 classes");
  CHECK(read_all(*packed) == Rows{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 0}});
  const auto stored = npz(dir.write("s.npz", kStored));
  CHECK(read_all(*stored) == Rows{{0.5, 1.5}, {1, 0}});
  CHECK_THAT(
      data_error([&] { npz(dir.path("s.npz"), "images"); }),
      Contains("s.npz: the archive has no array 'images': found 'x', 'y'") && Contains("x_name"));
}

TEST_CASE("npy: every type becomes f32; shapes, scale and channels") {
  TempFolder dir;
  const auto y = dir.write("y.npy", kLabels);
  const auto values = [&](const std::string& bytes, const NpyOptions& o = {}) {
    return read_all(*npy(dir.write("x.npy", bytes), y, o)).values;
  };
  const std::vector<float> ramp{0, 1, 2, 100};
  CHECK(values(array<float>("<f4", {2, 2}, ramp)) == ramp);
  CHECK(values(array<float>(">f4", {2, 2}, ramp)) == ramp);
  CHECK(values(array<double>("<f8", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::int8_t>("|i1", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::uint8_t>("|u1", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::int16_t>("<i2", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::uint16_t>(">u2", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::int32_t>(">i4", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::uint32_t>("<u4", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::int64_t>("<i8", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::uint64_t>(">u8", {2, 2}, {0, 1, 2, 100})) == ramp);
  CHECK(values(array<std::uint8_t>("|b1", {2, 2}, {0, 1, 1, 0})) == std::vector<float>{0, 1, 1, 0});
  CHECK(values(array<std::uint16_t>("<f2", {2}, {0x3800, 0xc000})) == std::vector<float>{0.5, -2});
  // (x / 2 - mean) / std, one of each a channel.
  CHECK(values(array<float>("<f4", {2, 2}, {2, 4, 6, 8}),
               {.scale = 2, .mean = {1, 0}, .stddev = {1, 4}}) == std::vector<float>{0, 0.5, 2, 1});
  const auto shaped = npy(dir.write("x.npy", array<float>("<f4", {2, 4}, std::vector<float>(8))), y,
                          {.shape = {2, 2, 1}, .field = "grid"});
  CHECK(shaped->fields()[0].name == "grid");
  CHECK(shaped->fields()[0].shape == Shape{2, 2, 1});
}

TEST_CASE("npy: Fortran's order and channels first are brought to ours") {
  TempFolder dir;
  const auto y = dir.write("y.npy", kLabels);
  // [[0, 1, 2], [3, 4, 5]] column by column.
  const auto turned =
      dir.write("f.npy", fortran(array<std::uint8_t>("|u1", {2, 3}, {0, 3, 1, 4, 2, 5})));
  CHECK(read_all(*npy(turned, y)).values == std::vector<float>{0, 1, 2, 3, 4, 5});
  // Two images [2 channels, 1, 3].
  const auto chw = dir.write(
      "c.npy",
      array<std::int32_t>("<i4", {2, 2, 1, 3}, {1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60}));
  const auto set = npy(chw, y, {.channels_first = true});
  CHECK(set->fields()[0].shape == Shape{1, 3, 2});
  CHECK(read_all(*set).values == std::vector<float>{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60});
  CHECK_THAT(data_error([&] { npy(turned, y, {.channels_first = true}); }),
             Contains("found [2, 3], expected [rows of data, channels, rows, columns]"));
}

TEST_CASE("npy: a part of the rows, labels and their ranges") {
  TempFolder dir;
  const auto x = dir.write("x.npy", array<float>("<f4", {4, 1}, {0, 1, 2, 3}));
  const auto y = dir.write("y.npy", array<std::uint8_t>("|u1", {4, 1}, {0, 1, 3, 255}));
  const auto part =
      npy(x, y, {.labels = {.classes = 4, .ignore = 255}, .rows = {.first = 1, .count = 2}});
  CHECK(read_all(*part) == Rows{{1, 2}, {1, 3}});
  CHECK(part->classes() == 4);
  CHECK_THAT(npy(x, y, {.labels = {.ignore = 255}})->warning(), Contains("class 2 has no rows"));
  CHECK_THAT(data_error([&] { npy(x, y, {.labels = {.classes = 4}}); }),
             Contains("y.npy: ") && Contains("label 255 in row 3"));
  const auto bad_y = [&](const std::string& bytes) {
    return data_error([&] { npy(x, dir.write("b.npy", bytes)); });
  };
  CHECK_THAT(bad_y(array<float>("<f4", {4}, {0, 1, 2, 3})),
             Contains("labels are integers: found type <f4") && Contains("astype"));
  CHECK_THAT(bad_y(array<std::uint8_t>("|u1", {4, 2}, std::vector<std::uint8_t>(8))),
             Contains("found [4, 2], expected [rows]") && Contains("argmax"));
  CHECK_THAT(bad_y(array<std::uint8_t>("|u1", {3}, {0, 0, 0})),
             Contains("found 3 labels, expected 4 rows as in "));
  CHECK_THAT(bad_y(array<std::uint64_t>("<u8", {4}, {0, 1, ~std::uint64_t{0}, 0})),
             Contains("too large to be a class number"));
}

TEST_CASE("npy: files that are refused, with what to do") {
  TempFolder dir;
  const auto y = dir.write("y.npy", kLabels);
  const auto bad = [&](const std::string& bytes, const NpyOptions& o = {}) {
    return data_error([&] { npy(dir.write("x.npy", bytes), y, o); });
  };
  CHECK_THAT(bad(with_header("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "")),
             Contains("x.npy: the array holds Python objects, which are never loaded"));
  CHECK_THAT(bad(with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }")),
             Contains("records"));
  CHECK_THAT(bad(with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }")),
             Contains("not supported: found '<c8'") && Contains("astype"));
  CHECK_THAT(bad(with_header("{'descr': '<f4', 'shape': (2,), }")), Contains("found 2 keys"));
  CHECK_THAT(bad(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }")),
             Contains("no extent"));
  CHECK_THAT(bad(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': "
                             "(4611686018427387904, 4), }")),
             Contains("does not fit 64 bits"));
  CHECK_THAT(bad(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "abcd")),
             Contains("a single value"));
  CHECK_THAT(bad(array<float>("<f4", {0, 3}, {})), Contains("0 rows"));
  CHECK_THAT(bad(array<float>("<f4", {2, 0}, {})), Contains("a row has no values"));
  CHECK_THAT(bad(array<float>("<f4", {2, 2}, {1, 2, 3})),
             Contains("too short for its header: found 12 bytes, expected 16 bytes"));
  CHECK_THAT(bad(array<float>("<f4", {2}, {1, 2, 3})), Contains("bytes follow the last value"));
  CHECK_THAT(bad(array<float>("<f4", {2, 1}, {1, std::nanf("")})), Contains("NaN in row 1"));
  CHECK_THAT(bad(array<double>("<f8", {2, 1}, {1e300, 1})), Contains("found 1e+300 in row 0"));
  CHECK_THAT(bad("PK\3\4 not an array"),
             Contains("found an npz archive; name it by `file` instead of `x` and `y`"));
  CHECK_THAT(bad(""), Contains("the file is empty"));
  CHECK_THAT(bad("\x93NUMPY\x07"),
             Contains("the npy header is cut: found 7 bytes, expected at least 10"));
  CHECK_THAT(bad(array<float>("<f4", {2, 3}, std::vector<float>(6)), {.shape = {2, 2}}),
             Contains("found [3], expected [2, 2]") && Contains("a `shape` of 3 values"));
  CHECK_THAT(bad(array<float>("<f4", {2, 3}, std::vector<float>(6)), {.shape = {4}}),
             Contains("`shape` does not fit"));
  CHECK_THAT(data_error([&] { npy(dir.path("none.npy"), y); }), Contains("does not exist"));
  CHECK_THAT(data_error([&] { npz(dir.path("y.npy")); }),
             Contains("found a single npy array; name it by `x` and `y` instead of `file`"));
}

TEST_CASE("npy: versions 2 and 3, gzip, either quotes and Python 2's integers are read") {
  TempFolder dir;
  const auto y = dir.write("y.npy.gz", gzip(kLabels));
  const std::string values = raw<float>({1, 2});
  for (const char version : {1, 2, 3}) {
    const auto x = dir.write(
        "x.npy",
        with_header("{\"shape\": (2L,), 'fortran_order': True, 'descr': '<f4'}", values, version));
    CHECK(read_all(*npy(x, y)) == Rows{{1, 2}, {1, 0}});
  }
}

TEST_CASE("npy: every cut and every changed byte of a file loads or is a DataError") {
  TempFolder dir;
  const auto y = dir.write("y.npy", kLabels);
  const std::string file = array<std::int16_t>("<i2", {2, 3}, {1, 2, 3, 4, 5, 6});
  int loaded = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes, bool archive) {
    const auto path = dir.write("d", bytes);
    try {
      read_all(archive ? *npz(path) : *npy(path, y));
      ++loaded;
    } catch (const DataError&) {
      ++refused;
    }
  };
  for (std::size_t n = 0; n < file.size(); ++n) attempt(file.substr(0, n), false);
  for (const std::string& archive : {kPacked, kStored})
    for (std::size_t n = 0; n < archive.size(); ++n) attempt(archive.substr(0, n), true);
  CHECK(loaded == 0);
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    attempt(changed, false);
  }
  CHECK(loaded == 12);  // the values
  loaded = 0;
  for (std::size_t at = 0; at < kPacked.size(); ++at) {
    std::string changed = kPacked;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    attempt(changed, true);
  }
  CHECK(refused > 1000);
  CHECK(loaded < 140);  // versions, times and sizes that only the local headers repeat
}

TEST_CASE("zip: what an archive says is checked before memory is taken") {
  TempFolder dir;
  std::string huge = kStored;
  const std::size_t central = huge.find("PK\x01\x02");
  huge.replace(central + 20, 8, std::string("\xff\xff\xff\x7f\xff\xff\xff\x7f", 8));
  CHECK_THAT(data_error([&] { npz(dir.write("h.npz", huge)); }), Contains("points past its end"));
  std::string bomb = kPacked;
  const std::size_t second = bomb.find("PK\x01\x02");
  bomb.replace(second + 24, 4, std::string("\xff\xff\xff\x7f", 4));
  CHECK_THAT(data_error([&] { npz(dir.write("b.npz", bomb)); }),
             Contains("member 'x.npy' has sizes that do not belong together"));
  std::string locked = kStored;
  locked[locked.find("PK\x01\x02") + 8] = 1;
  CHECK_THAT(data_error([&] { npz(dir.write("l.npz", locked)); }), Contains("encrypted"));
  std::string wrong = kStored;
  wrong[wrong.find("PK\x03\x04") + 100] ^= 1;
  CHECK_THAT(data_error([&] { npz(dir.write("w.npz", wrong)); }), Contains("check sum"));
}

TEST_CASE("npy: the config's table") {
  TempFolder dir;
  dir.write("a.npz", kPacked);
  const Registry registry = builtin();
  const auto open = [&](const std::string& keys) {
    Document document = Document::from_text("[data]\n" + keys, dir.path("run.toml"));
    const auto factory = registry.table<DatasetEntry>().at("npy", "data set").make();
    Schema schema;
    factory->declare(schema);
    document.bind("data", schema);
    document.finish();
    return factory->open(dir.path(""));
  };
  CHECK(open("file = \"a.npz\"\nscale = 2\nfirst = 1")->rows() == 1);
  const auto bad = [&](const std::string& keys) {
    return error_of<ConfigError>([&] { open(keys); });
  };
  CHECK_THAT(bad("x = \"a\""), Contains("`x` and `y` are needed, or `file` alone"));
  CHECK_THAT(bad("x = \"a\"\ny = \"b\"\nfile = \"c\""), Contains("or `file` alone"));
  CHECK_THAT(bad("file = \"a.npz\"\nmean = [1, 2, 3]"), Contains("1 or 2"));
  CHECK_THAT(bad("file = \"a.npz\"\nfield = \"label\""), Contains("`field`"));
}
