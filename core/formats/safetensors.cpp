// SPDX-License-Identifier: MIT
#include "belfry/core/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "belfry/core/registry.h"

namespace belfry::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are written as they are");

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
// The reference implementation's bound; a header of 100 MB describes a million tensors.
constexpr std::uint64_t kLargestHeader = 100'000'000;
// A tensor's description is 3 deep; printing a value takes stack for each level.
constexpr int kDeepest = 8;

[[noreturn]] void refuse(const std::string& file, const std::string& what, std::string found = "",
                         std::string expected = "") {
  throw CheckpointError(ErrorText{
      .what = what, .found = std::move(found), .expected = std::move(expected), .file = file});
}

bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// Bytes of a tensor, or nothing when its shape or type makes no sense or the size overflows.
std::optional<std::uint64_t> byte_size(const std::string& dtype,
                                       const std::vector<std::int64_t>& shape) {
  std::uint64_t size = item_size(dtype);
  if (size == 0) return std::nullopt;
  for (const std::int64_t extent : shape)
    if (extent < 0 || !multiply(size, static_cast<std::uint64_t>(extent), &size))
      return std::nullopt;
  return size;
}

// nlohmann keeps the last of two equal keys without a word, so keys are watched while parsing.
Json parse_json(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest)
      refuse(file, "the header is not JSON of tensors: values nested deeper than " +
                       std::to_string(kDeepest));
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      refuse(file, "tensor '" + value.get<std::string>() + "' occurs twice in the header");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& e) {
    refuse(file, std::string("the header is not JSON: ") + e.what());
  }
}

std::uint64_t whole_number(const Json& value, const std::string& file, const std::string& what) {
  if (!value.is_number_unsigned()) refuse(file, what, value.dump(), "whole numbers from 0");
  return value.get<std::uint64_t>();
}

// Reads one tensor's description; `offset` is left relative to the first byte after the header.
Entry parse_entry(const std::string& name, const Json& value, const std::string& file) {
  const std::string what = "tensor '" + name + "'";
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets"))
    refuse(file, what, "another description", "dtype, shape and data_offsets");
  const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  Entry out{.name = name, .dtype = dtype.is_string() ? dtype.get<std::string>() : "", .shape = {}};
  if (item_size(out.dtype) == 0) refuse(file, what + ": dtype", dtype.dump(), "F32, BF16, I64 ...");
  if (!shape.is_array()) refuse(file, what + ": shape", shape.dump(), "a list");
  for (const Json& extent : shape) {
    const std::uint64_t n = whole_number(extent, file, what + ": shape");
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse(file, what + ": shape", extent.dump(), "less than 2^63");
    out.shape.push_back(static_cast<std::int64_t>(n));
  }
  if (!offsets.is_array() || offsets.size() != 2)
    refuse(file, what + ": data_offsets", offsets.dump(), "[begin, end]");
  out.offset = whole_number(offsets[0], file, what + ": data_offsets");
  const std::uint64_t end = whole_number(offsets[1], file, what + ": data_offsets");
  const std::optional<std::uint64_t> size = byte_size(out.dtype, out.shape);
  if (end < out.offset || !size || *size != end - out.offset)
    refuse(file, what + ": data_offsets", offsets.dump(),
           size ? std::to_string(*size) + " bytes for " + out.dtype + " " + shape.dump()
                : "a shape whose size fits in 64 bits");
  out.size = end - out.offset;
  return out;
}

Metadata parse_metadata(const Json& value, const std::string& file) {
  if (!value.is_object()) refuse(file, "__metadata__", value.dump(), "an object of strings");
  Metadata out;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse(file, "__metadata__ '" + key + "'", text.dump(), "a string");
    out[key] = text.get<std::string>();
  }
  return out;
}

}  // namespace

std::size_t item_size(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> kSizes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  for (const auto& [name, size] : kSizes)
    if (name == dtype) return size;
  return 0;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t extent : shape) out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + out + "]";
}

std::string encode_header(std::span<const Tensor> tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const Tensor& t : tensors) {
    const std::optional<std::uint64_t> size = byte_size(t.dtype, t.shape);
    if (!size || *size != t.bytes.size())
      throw CheckpointError(ErrorText{.what = "tensor '" + t.name + "' of " + t.dtype,
                                      .found = std::to_string(t.bytes.size()) + " bytes",
                                      .expected = size ? std::to_string(*size) : "a known type"});
    if (t.name == "__metadata__" || header.contains(t.name))
      throw CheckpointError("tensor name '" + t.name + "' is taken");
    header[t.name] = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, offset + *size}}};
    offset += *size;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& e) {
    throw CheckpointError(std::string("names and metadata must be UTF-8: ") + e.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text;
}

std::vector<std::byte> encode(std::span<const Tensor> tensors, const Metadata& metadata) {
  const std::string header = encode_header(tensors, metadata);
  const auto head = std::as_bytes(std::span(header));
  std::vector<std::byte> out(head.begin(), head.end());
  for (const Tensor& t : tensors) out.insert(out.end(), t.bytes.begin(), t.bytes.end());
  return out;
}

Reader::Reader(const std::string& path) : name_(path), file_(std::in_place, path) { open(); }

Reader::Reader(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), bytes_(bytes) {
  open();
}

void Reader::open() {
  if (size() < kLengthBytes)
    refuse(name_, "not a safetensors file", std::to_string(size()) + " bytes", "at least 8");
  std::uint64_t header_size = 0;
  read_at(0, std::as_writable_bytes(std::span(&header_size, 1)));
  if (header_size > size() - kLengthBytes || header_size > kLargestHeader)
    refuse(name_, "the header's length", std::to_string(header_size),
           "at most " + std::to_string(std::min(size() - kLengthBytes, kLargestHeader)));
  parse_header(header_size);
}

void Reader::parse_header(std::uint64_t header_size) {
  std::string text(header_size, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const Json header = parse_json(text, name_);
  if (!header.is_object()) refuse(name_, "the header", header.type_name(), "a JSON object");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      metadata_ = parse_metadata(value, name_);
    else
      entries_.push_back(parse_entry(name, value, name_));
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.offset, a.size, a.name) < std::tie(b.offset, b.size, b.name);
  });
  const std::uint64_t base = kLengthBytes + header_size;
  std::uint64_t next = 0;
  for (Entry& entry : entries_) {
    if (entry.offset != next)
      refuse(name_, "tensor '" + entry.name + "' starts at the wrong byte",
             std::to_string(entry.offset), std::to_string(next));
    next += entry.size;
    if (next > size() - base)
      refuse(name_, "tensor '" + entry.name + "' ends after the file",
             std::to_string(size() - base) + " bytes of data", std::to_string(next));
    entry.offset += base;
  }
  if (next != size() - base)
    refuse(name_, "bytes that belong to no tensor",
           std::to_string(size() - base) + " bytes of data", std::to_string(next));
}

const Entry* Reader::find(std::string_view name) const {
  const auto same = [name](const Entry& entry) { return entry.name == name; };
  const auto it = std::find_if(entries_.begin(), entries_.end(), same);
  return it == entries_.end() ? nullptr : &*it;
}

const Entry& Reader::at(std::string_view name) const {
  if (const Entry* entry = find(name)) return *entry;
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  const std::string near = nearest_name(name, names);
  throw CheckpointError(ErrorText{.what = "there is no tensor '" + std::string(name) + "'",
                                  .fix = near.empty() ? "" : "the nearest name is '" + near + "'",
                                  .file = name_});
}

void Reader::read(const Entry& entry, std::span<std::byte> out) const {
  if (out.size() != entry.size)
    refuse(name_, "tensor '" + entry.name + "'", std::to_string(entry.size) + " bytes",
           std::to_string(out.size()));
  read_at(entry.offset, out);
}

std::vector<std::byte> Reader::read(const Entry& entry) const {
  std::vector<std::byte> out(entry.size);
  read(entry, out);
  return out;
}

void Reader::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (file_)
    file_->read_at(offset, out);
  else if (!out.empty())
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

}  // namespace belfry::safetensors
