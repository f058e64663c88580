// SPDX-License-Identifier: MIT
#include "belfry/core/formats/safetensors.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "belfry/tests/catch.h"

using namespace belfry;
namespace st = belfry::safetensors;

namespace {

const std::vector<float> kWeights = {1, 2, 3, 4, 5, 6};
const std::vector<std::int64_t> kCount = {42};

std::vector<std::byte> small_file() {
  const std::vector<st::Tensor> tensors = {
      {"hidden.weight", "F32", {2, 3}, std::as_bytes(std::span(kWeights))},
      {"empty", "U8", {0, 7}, {}},
      {"count", "I64", {}, std::as_bytes(std::span(kCount))}};
  return st::encode(tensors, {{"format", "belfry"}});
}

// A file with this header and that many bytes of data.
std::vector<std::byte> file_with(const std::string& header, std::size_t data) {
  std::vector<std::byte> out(8 + header.size() + data);
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  std::memcpy(out.data() + 8, header.data(), header.size());
  return out;
}

std::string refusal(const std::string& header, std::size_t data) {
  try {
    const std::vector<std::byte> bytes = file_with(header, data);
    st::Reader(bytes, "m.safetensors");
  } catch (const CheckpointError& e) {
    return e.what();
  }
  return "accepted";
}

std::uint64_t total(const st::Reader& reader) {
  std::uint64_t sum = 0;
  for (const st::Entry& e : reader.entries()) sum += e.size;
  return sum;
}

}  // namespace

TEST_CASE("Tensors survive a round trip through a file") {
  const std::vector<std::byte> bytes = small_file();
  const auto path = std::filesystem::temp_directory_path() /
                    ("belfry-" + std::to_string(::getpid()) + ".safetensors");
  write_file_atomically(path.string(), bytes);
  const st::Reader reader(path.string());
  std::filesystem::remove(path);
  CHECK(reader.entries().size() == 3);
  CHECK(reader.metadata() == st::Metadata{{"format", "belfry"}});
  const st::Entry& weight = reader.at("hidden.weight");
  CHECK(weight.shape == std::vector<std::int64_t>{2, 3});
  CHECK(weight.offset % 8 == 0);
  std::vector<float> values(6);
  reader.read(weight, std::as_writable_bytes(std::span(values)));
  CHECK(values == kWeights);
  std::int64_t count = 0;
  reader.read(reader.at("count"), std::as_writable_bytes(std::span(&count, 1)));
  CHECK(count == 42);
  CHECK(reader.read(reader.at("empty")).empty());
  CHECK_THROWS_WITH(reader.at("hidden.weigth"),
                    Catch::Contains("'hidden.weigth'") && Catch::Contains("'hidden.weight'"));
  CHECK_THROWS_AS(reader.read(weight, {}), CheckpointError);
}

TEST_CASE("Any changed header byte gives a valid set of the same size or a CheckpointError") {
  const std::vector<std::byte> good = small_file();
  const std::size_t header = good.size() - 32;
  int loaded = 0, refused = 0;
  for (std::size_t i = 0; i < header; ++i) {
    for (int mask = 1; mask < 256; ++mask) {
      std::vector<std::byte> bad = good;
      bad[i] ^= static_cast<std::byte>(mask);
      try {
        const st::Reader reader(bad, "m");
        if (total(reader) != 32 || reader.entries().size() != 3)
          FAIL("byte " << i << " ^ " << mask);
        ++loaded;
      } catch (const CheckpointError&) {
        ++refused;
      }
    }
  }
  CHECK(loaded + refused == static_cast<int>(header) * 255);
  CHECK(loaded > 1000);  // names and metadata may change
  CHECK(refused > 20000);
}

TEST_CASE("A truncated or extended file is refused") {
  const std::vector<std::byte> good = small_file();
  for (std::size_t n = 0; n < good.size(); ++n)
    CHECK_THROWS_AS(st::Reader(std::span(good).first(n), "m"), CheckpointError);
  std::vector<std::byte> longer = good;
  longer.push_back({});
  CHECK_THROWS_WITH(st::Reader(longer, "m"), Catch::Contains("belong to no tensor"));
}

TEST_CASE("Headers that lie are refused by file and tensor") {
  const std::string f4 = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  CHECK(refusal(R"({"a":)" + f4 + "}", 4) == "accepted");
  CHECK_THAT(refusal(R"({"a":)" + f4 + R"(,"a":)" + f4 + "}", 4),
             Catch::Contains("m.safetensors: tensor 'a' occurs twice"));
  CHECK_THAT(refusal(R"({"a":)" + f4 + R"(,"b":)" + f4 + "}", 4),
             Catch::Contains("tensor 'b' starts at the wrong byte: found 0, expected 4"));
  CHECK_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
             Catch::Contains("tensor 'a'") && Catch::Contains("expected 8 bytes for F32 [2]"));
  CHECK_THAT(
      refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      Catch::Contains("fits in 64 bits"));
  CHECK_THAT(refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
             Catch::Contains("found -1, expected whole numbers"));
  CHECK_THAT(refusal(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4),
             Catch::Contains("dtype"));
  CHECK_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
             Catch::Contains("data_offsets"));
  CHECK_THAT(refusal(R"({"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}})", 4),
             Catch::Contains("tensor 'a' ends after the file"));
  CHECK_THAT(refusal("[]", 0), Catch::Contains("expected a JSON object"));
  CHECK_THAT(refusal(std::string(100000, '['), 0), Catch::Contains("not JSON"));
  CHECK_THAT(refusal(R"({"__metadata__":{"k":1}})", 0), Catch::Contains("a string"));
}

TEST_CASE("Values nested 400,000 deep are refused, wherever they stand; a rank of 8 is none") {
  const std::string deep = std::string(400000, '[') + std::string(400000, ']');
  for (const std::string& header :
       {R"({"a":)" + deep + "}", R"({"__metadata__":)" + deep + "}",
        R"({"a":{"dtype":)" + deep + R"(,"shape":[1],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":[)" + deep + R"(],"data_offsets":[0,4]}})"})
    CHECK_THAT(refusal(header, 4), Catch::Contains("nested deeper than 8"));
  CHECK(refusal(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4) ==
        "accepted");
  CHECK(st::shape_text({1, 1, 1, 1, 1, 1, 1, 2}) == "[1, 1, 1, 1, 1, 1, 1, 2]");
  CHECK(st::shape_text({}) == "[]");
}

TEST_CASE("A header longer than the file takes no memory") {
  std::vector<std::byte> bytes(16);
  const std::uint64_t length = std::uint64_t{1} << 62;
  std::memcpy(bytes.data(), &length, 8);
  CHECK_THROWS_WITH(st::Reader(bytes, "m"),
                    "m: the header's length: found 4611686018427387904, expected at most 8");
}

TEST_CASE("Tensors whose bytes do not fit their shape are not written") {
  const std::vector<st::Tensor> bad = {{"a", "F32", {7}, std::as_bytes(std::span(kWeights))}};
  CHECK_THROWS_WITH(st::encode(bad), "tensor 'a' of F32: found 24 bytes, expected 28");
  const st::Tensor a{"a", "F32", {6}, std::as_bytes(std::span(kWeights))};
  CHECK_THROWS_AS(st::encode(std::vector{a, a}), CheckpointError);
}
