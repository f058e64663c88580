// SPDX-License-Identifier: MIT
// Folders of images: files that Pillow wrote, sizes and pixels beside Pillow's, and damage.
#include "belfry/data/datasets/folders/folders.h"

#include "belfry/core/document.h"
#include "belfry/data/datasets/folders/decode_internal.h"
#include "belfry/tests/data/files.h"
#include "belfry/tests/hex.h"

using namespace belfry;
using namespace belfry::test;

namespace {

// 3 x 2 colours (10, 20, 30), (40, 50, 60), ... (160, 170, 180).
const std::string kColours = from_hex(
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d0000001349444154789c63e41291"
    "83"
    "0096a8a828080b0018d802b839d0d4a00000000049454e44ae426082");
// 2 x 2 greys 0, 85, 170, 255.
const std::string kGreys = from_hex(
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000e49444154789c63600865"
    "58"
    "f51f0003ad01ff67fbca090000000049454e44ae426082");
// A transparent white pixel and an opaque (200, 100, 50).
const std::string kAlpha = from_hex(
    "89504e470d0a1a0a0000000d4948445200000002000000010806000000f4227f8a0000001149444154789c63f8ffff"
    "3f"
    "c38914a3ff001aa3055b01d7062d0000000049454e44ae426082");
// 3 x 1 greys of 16 bits, 0, 0x8000, 0xffff, that say nothing of their gamma.
const std::string kGreys16 = from_hex(
    "89504e470d0a1a0a0000000d49484452000000030000000110000000006e1b972b0000000f4944415478da63606068"
    "60"
    "f8ff1f000504027f5afbf7a70000000049454e44ae426082");
// 8 x 8 of (120, 60, 200), which JPEG makes (121, 60, 200).
const std::string kJpeg = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a"
    "07"
    "0706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffdb00430103"
    "04"
    "0405040509050509140d0b0d1414141414141414141414141414141414141414141414141414141414141414141414"
    "14"
    "1414141414141414141414141414ffc00011080008000803012200021101031101ffc4001500010100000000000000"
    "00"
    "0000000000000007ffc40014100100000000000000000000000000000000ffc4001501010100000000000000000000"
    "00"
    "0000000608ffc40014110100000000000000000000000000000000ffda000c03010002110311003f009200a80cdfff"
    "d9");
// 8 x 8 greys, each row 0, 30, 60, ... 210 before packing.
const std::string kJpegGrey = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb00430002010101010102010101020202020204030202020205"
    "04"
    "040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affc0000b0800"
    "08"
    "000801011100ffc40014000100000000000000000000000000000007ffc40018100002030000000000000000000000"
    "00"
    "00000a4583c1ffda0008010100003f00235dc82af0ffd9");

// 8 x 8 of cyan 200, magenta 100, yellow 0, black 50, from Pillow.
const std::string kInks = from_hex(
    "ffd8ffee000e41646f626500640000000000ffdb0043000302020302020303030304030304050805050404050a0707"
    "06080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc00014080008"
    "0008044311004d11005911004b1100ffc4001f0000010501010101010100000000000000000102030405060708090a"
    "0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a10823"
    "42b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a53545556575859"
    "5a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5"
    "b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda000e"
    "0443004d0059004b00003f00f8f2bd22bf54ebecdaffd9");

std::span<const std::uint8_t> bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

using Pixels = std::vector<std::uint8_t>;

void put(const TempFolder& dir, const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(dir.path(path)).parent_path());
  dir.write(path, content);
}

}  // namespace

TEST_CASE("images: PNG and JPEG as Pillow reads them, in colour and grey") {
  const DecodedImage colours = decode_image(bytes(kColours), "c.png", 3);
  CHECK(colours.rows == 2);
  CHECK(colours.columns == 3);
  CHECK(colours.pixels ==
        Pixels{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180});
  CHECK(decode_image(bytes(kGreys), "g.png", 1).pixels == Pixels{0, 85, 170, 255});
  CHECK(decode_image(bytes(kGreys), "g.png", 3).pixels ==
        Pixels{0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255});
  CHECK(decode_image(bytes(kAlpha), "a.png", 3).pixels == Pixels{0, 0, 0, 200, 100, 50});
  CHECK(decode_image(bytes(kGreys16), "w.png", 1).pixels == Pixels{0, 128, 255});
  const DecodedImage jpeg = decode_image(bytes(kJpeg), "j.jpg", 3);
  REQUIRE(jpeg.pixels.size() == 192);
  for (std::size_t i = 0; i < 192; i += 3)
    CHECK(Pixels(jpeg.pixels.begin() + static_cast<std::ptrdiff_t>(i),
                 jpeg.pixels.begin() + static_cast<std::ptrdiff_t>(i) + 3) == Pixels{121, 60, 200});
  const DecodedImage grey = decode_image(bytes(kJpegGrey), "k.jpg", 1);
  CHECK(Pixels(grey.pixels.begin(), grey.pixels.begin() + 8) ==
        Pixels{0, 30, 60, 91, 119, 150, 180, 210});
  CHECK(decode_size(bytes(kJpeg), "j.jpg").columns == 8);
  CHECK(decode_image(bytes(kColours), "c.png", 1).pixels == Pixels{18, 48, 78, 108, 138, 168});
  const Pixels printed = decode_image(bytes(kInks), "p.jpg", 3).pixels;
  REQUIRE(printed.size() == 192);
  for (std::size_t i = 0; i < 192; ++i) CHECK(printed[i] == Pixels{44, 125, 205}[i % 3]);
  CHECK(decode_image(bytes(kInks), "p.jpg", 1).pixels == Pixels(64, 110));
}

TEST_CASE("images: resizing gives Pillow's BILINEAR values, smaller and larger") {
  DecodedImage image{5, 7, 1, {}};
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 7; ++x)
      image.pixels.push_back(static_cast<std::uint8_t>((x * 37 + y * 91) % 256));
  const auto near = [](const std::vector<float>& got, const std::vector<double>& want) {
    for (std::size_t i = 0; i < want.size(); ++i)
      CHECK(static_cast<double>(got.at(i)) == Approx(want[i]).epsilon(1e-5));
  };
  near(resized(image, 2, 3, false), {98.61038970947266, 129.44384765625, 129.18182373046875,
                                     106.06493377685547, 118.4171142578125, 128.32467651367188});
  const std::vector<float> large = resized(image, 9, 10, false);
  CHECK(large.size() == 90);
  near(large, {0.0, 20.350000381469727, 46.25, 72.1500015258789, 98.05000305175781,
               123.94999694824219, 149.85000610351562, 175.75, 201.64999389648438, 222.0,
               30.33333396911621, 50.68333435058594});
  // Pillow's resize with box = (1, 0, 6, 5), the middle 5 x 5.
  near(resized(image, 3, 3, true),
       {85.25, 150.0, 146.17857360839844, 118.02777862548828, 93.88888549804688, 123.08333587646484,
        115.25, 147.4920654296875, 98.46428680419922});
}

TEST_CASE("images: of a tall image no more is made narrow than its middle needs") {
  const DecodedImage image{kMostPixels, 1, 1, Pixels(kMostPixels, 7)};
  const std::vector<float> middle = resized(image, 1, 16384, true);
  CHECK(middle == std::vector<float>(16384, 7));
}

TEST_CASE("images: a folder a class, sorted, other files left out, normalised by channel") {
  TempFolder dir;
  put(dir, "set/dog/b.PNG", kColours);
  put(dir, "set/cat/deep/z.png", kColours);
  put(dir, "set/cat/a.png", kColours);
  put(dir, "set/cat/notes.txt", "no image");
  put(dir, "set/.cache/x.png", "no image");
  put(dir, "set/cat/.ipynb_checkpoints/a-checkpoint.png", kColours);
  put(dir, "set/dog/._b.PNG", "what macOS keeps of b.PNG");
  const auto set = folders(dir.path("set"), {.mean = {0, 0.5, 0}, .stddev = {1, 0.5, 2}});
  CHECK(set->describe() == "folders: 3 rows, image [2, 3, 3] f32, label i32, 2 classes");
  CHECK(set->class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(subset(set, 1, 1)->class_names().size() == 2);
  const Rows rows = read_rows(*set, {2, 0, 1});
  CHECK(rows.labels == std::vector<std::int32_t>{1, 0, 0});
  CHECK(rows.values[0] == Approx(10.0 / 255));
  CHECK(rows.values[1] == Approx((20.0 / 255 - 0.5) / 0.5));
  CHECK(rows.values[2] == Approx(30.0 / 255 / 2));
  CHECK(rows.values[18 + 17] == Approx(180.0 / 255 / 2));
  const auto named = folders(dir.path("set"), {.names = {"dog", "bird", "cat"}});
  CHECK(read_all(*named).labels == std::vector<std::int32_t>{0, 2, 2});
  CHECK(named->warning() == "classes without images: 'bird'");
  const auto grey = folders(dir.path("set"), {.size = {1, 1}, .fit = "stretch", .channels = 1});
  CHECK(grey->fields()[0].shape == Shape{1, 1, 1});
}

TEST_CASE("images: what is wrong with a folder is said when it is opened") {
  TempFolder dir;
  const auto bad = [&](const std::string& path, const FoldersOptions& o = {}) {
    return data_error([&] { folders(dir.path(path), o); });
  };
  CHECK_THAT(bad("none"), Contains("none: the data folder does not exist"));
  put(dir, "flat/a.png", kColours);
  CHECK_THAT(bad("flat"), Contains("holds no folders") && Contains("one folder a class"));
  CHECK_THAT(bad("flat/a.png"), Contains("found a file"));
  put(dir, "empty/a/readme", "");
  CHECK_THAT(bad("empty"), Contains("0 rows: no .jpg, .jpeg or .png file"));
  put(dir, "two/a/a.png", kColours);
  put(dir, "two/b/b.png", kGreys);
  CHECK_THAT(bad("two", {.names = {"a", "c"}}),
             Contains("found 'b'") && Contains("add it to `names`"));
  CHECK_THROWS_AS(folders(dir.path("two"), {.size = {3}}), ConfigError);
  CHECK_THROWS_AS(folders(dir.path("two"), {.channels = 2}), ConfigError);
  CHECK_THROWS_AS(folders(dir.path("two"), {.names = {"a", "a"}}), ConfigError);
  CHECK_THROWS_AS(folders(dir.path("two"), {.mean = {1, 2}}), ConfigError);
  CHECK_THAT(bad("two"), Contains("b.png: the image has another size than the first: found 2 x 2, "
                                  "expected 2 x 3; give the data a `size`"));
  put(dir, "two/b/a.png", kColours);
  const auto set = folders(dir.path("two"), {.size = {2, 3}});
  CHECK(set->rows() == 3);
  put(dir, "later/a/a.png", kColours);
  put(dir, "later/b/b.png", kColours);
  const auto later = folders(dir.path("later"));
  put(dir, "later/b/b.png", kGreys);  // exchanged after it was opened
  CHECK_THAT(data_error([&] { read_all(*later); }), Contains("another size than the first"));
}

TEST_CASE("images: a damaged, cut or foreign file is a DataError that names it, every byte") {
  TempFolder dir;
  const auto said = [](const std::string& content, const std::string& name) -> std::string {
    try {
      decode_image(bytes(content), name, 3);
    } catch (const DataError& e) {
      CHECK_THAT(std::string(e.what()), Contains(name + ": "));
      return e.what();
    }
    return "";
  };
  for (const std::string& file : {kColours, kJpeg, kJpegGrey, kInks}) {
    const bool png = file == kColours;
    int decoded = 0;
    for (std::size_t n = 0; n < file.size(); ++n)
      decoded += said(file.substr(0, n), "cut.x").empty() ? 1 : 0;
    CHECK(decoded <= (png ? 12 : 0));  // PNG's last chunk holds nothing
    for (std::size_t at = 0; at < file.size(); ++at) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ 0x24);
      said(changed, "changed.x");
    }
  }
  CHECK_THAT(said("GIF89a", "x.png"), Contains("the file is no image") && Contains("JPEG or PNG"));
  CHECK_THAT(said("", "x.png"), Contains("found 0 bytes"));
  std::string huge = kJpeg;
  const std::size_t frame = huge.find("\xff\xc0");
  huge.replace(frame + 5, 4, "\xf0\xf0\xf0\xf0");
  CHECK_THAT(said(huge, "h.jpg"), Contains("size is out of range: found 61680 x 61680"));
  put(dir, "set/a/good.png", kColours);
  put(dir, "set/a/z.png", kColours.substr(0, kColours.size() - 20));
  const auto set = folders(dir.path("set"));
  CHECK(read_rows(*set, {0}).values.size() == 18);
  CHECK_THAT(data_error([&] { read_all(*set); }),
             Contains("set/a/z.png: the PNG image is damaged") && Contains("repair the file"));
}
