// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belfry/core/atomic_file.h"

// The safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes without
// gaps. Little-endian. Files are untrusted: every number is checked before memory is taken, and
// what is wrong is a CheckpointError naming file and tensor.
namespace belfry::safetensors {

// Bytes an element of "F32", "BF16", "I64" ... takes; 0 for a name that is not a type.
std::size_t item_size(std::string_view dtype);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "[2, 3]", of any rank

// A tensor to be written; the bytes stay the caller's.
struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};
using Metadata = std::map<std::string, std::string>;

// What a file says of a tensor; `offset` counts from the start of the file.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// The file's first part: length and header, padded to 8 bytes. The tensors' bytes follow in order.
std::string encode_header(std::span<const Tensor> tensors, const Metadata& metadata);
std::vector<std::byte> encode(std::span<const Tensor> tensors, const Metadata& metadata = {});

// A checked file, or bytes in memory: opening reads and validates the header only. One thread.
class Reader {
 public:
  explicit Reader(const std::string& path);
  // The bytes must outlive the reader; `name` stands for the path in messages.
  Reader(std::span<const std::byte> bytes, std::string name);

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their bytes
  const Metadata& metadata() const { return metadata_; }
  const Entry* find(std::string_view name) const;
  const Entry& at(std::string_view name) const;  // CheckpointError with the nearest name
  // `out` must have exactly the entry's size.
  void read(const Entry& entry, std::span<std::byte> out) const;
  std::vector<std::byte> read(const Entry& entry) const;

 private:
  void open();
  void parse_header(std::uint64_t header_size);
  std::uint64_t size() const { return file_ ? file_->size() : bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  std::string name_;
  std::optional<InputFile> file_;
  std::span<const std::byte> bytes_;
  std::vector<Entry> entries_;
  Metadata metadata_;
};

}  // namespace belfry::safetensors
