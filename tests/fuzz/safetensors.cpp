// SPDX-License-Identifier: MIT
// A safetensors file. The mutator mutates the header as text, and mostly repairs its length and
// gives the file as many bytes after it as the largest number in it asks for.
#include "belfry/core/formats/safetensors.h"

#include <algorithm>
#include <charconv>

#include "fuzz.h"
#include "mutate.h"

namespace belfry::fuzz {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostData = 1024;

std::string header_of(std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < kLengthBytes) return "{}";
  std::memcpy(&length, file.data(), kLengthBytes);
  file.remove_prefix(kLengthBytes);
  return std::string(file.substr(0, std::min<std::uint64_t>(length, file.size())));
}

// The end of the last tensor, if the header is right: the largest number before a ']'.
std::uint64_t data_bytes(std::string_view header) {
  std::uint64_t most = 0;
  for (std::size_t at = header.find(']'); at != header.npos; at = header.find(']', at + 1)) {
    std::size_t first = at;
    while (first > 0 && header[first - 1] >= '0' && header[first - 1] <= '9') --first;
    std::uint64_t n = 0;
    std::from_chars(header.data() + first, header.data() + at, n);
    if (n <= kMostData) most = std::max(most, n);
  }
  return most;
}

// What was read, written again: the bytes of every tensor, and the same file twice.
void rewrite(const safetensors::Reader& reader) {
  std::vector<std::vector<std::byte>> bytes;
  for (const safetensors::Entry& e : reader.entries()) bytes.push_back(reader.read(e));
  std::vector<safetensors::Tensor> tensors;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const safetensors::Entry& e = reader.entries()[i];
    tensors.push_back({e.name, e.dtype, e.shape, bytes[i]});
  }
  const std::vector<std::byte> file = safetensors::encode(tensors, reader.metadata());
  const safetensors::Reader again(file, "again");
  require(again.metadata() == reader.metadata(), "metadata comes back");
  require(again.entries().size() == reader.entries().size(), "every tensor comes back");
  for (const safetensors::Tensor& t : tensors) {
    const safetensors::Entry& e = again.at(t.name);
    require(e.dtype == t.dtype && e.shape == t.shape, "type and shape come back");
    require(std::ranges::equal(again.read(e), t.bytes), "a tensor's bytes come back");
  }
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max, unsigned seed) {
  using namespace belfry::fuzz;
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, max);
  std::string header = header_of(text_of(data, size));
  const std::size_t length = header.size();
  const std::size_t room = max > kLengthBytes + kMostData ? max - kLengthBytes - kMostData : 0;
  header.resize(std::max<std::size_t>(room, length));
  header.resize(
      LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(header.data()), length, header.size()));
  const std::uint64_t repaired = header.size();
  std::string file(kLengthBytes, '\0');
  std::memcpy(file.data(), &repaired, kLengthBytes);
  file += header + std::string(data_bytes(header), '\x3f');
  const std::size_t n = std::min(file.size(), max);
  std::memcpy(data, file.data(), n);
  return n;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  fuzz::accepts<CheckpointError>([&] {
    const safetensors::Reader reader(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    fuzz::accepts<CheckpointError>([&] { reader.at("weigt"); });
    fuzz::require(fuzz::accepts<>([&] { fuzz::rewrite(reader); }), "what was read can be written");
  });
  return 0;
}
