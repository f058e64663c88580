// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/core/formats/zip.h"
#include "belfry/core/names_text.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/datasets/npy/array_internal.h"
#include "belfry/device/half.h"

namespace belfry {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they are");

// Calls f(T{}) with the C++ type of the array's values.
template <class F>
decltype(auto) with_type(const numpy::Header& h, F&& f) {
  if (h.kind == 'f') {
    if (h.item == 2) return f(Half{});
    if (h.item == 4) return f(float{});
    return f(double{});
  }
  const bool plus = h.kind != 'i';
  if (h.item == 1) return plus ? f(std::uint8_t{}) : f(std::int8_t{});
  if (h.item == 2) return plus ? f(std::uint16_t{}) : f(std::int16_t{});
  if (h.item == 4) return plus ? f(std::uint32_t{}) : f(std::int32_t{});
  return plus ? f(std::uint64_t{}) : f(std::int64_t{});
}

template <class T>
T load(const NpyArray& array, std::size_t i) {
  T v;
  std::memcpy(&v, array.values.data() + i * sizeof(T), sizeof(T));
  return v;
}

template <class T>
double wide(T v) {
  if constexpr (std::is_same_v<T, Half>)
    return static_cast<double>(static_cast<float>(v));
  else
    return static_cast<double>(v);
}

void swap_bytes(NpyArray& array) {
  for (std::size_t at = 0; at < array.values.size(); at += array.header.item)
    std::reverse(array.values.begin() + static_cast<std::ptrdiff_t>(at),
                 array.values.begin() + static_cast<std::ptrdiff_t>(at + array.header.item));
  array.header.big_endian = false;
}

// From the file's order of bytes and axes to ours.
void settle(NpyArray& array) {
  if (array.header.big_endian) swap_bytes(array);
  const std::size_t rank = array.header.shape.size();
  if (!array.header.fortran) return;
  array.header.fortran = false;
  if (rank < 2) return;
  // In the file the last axis varies slowest: it is the C-ordered array of the axes reversed.
  std::reverse(array.header.shape.begin(), array.header.shape.end());
  std::vector<std::size_t> order(rank);
  for (std::size_t k = 0; k < rank; ++k) order[k] = rank - 1 - k;
  transpose(array, order);
}

std::string bytes_text(std::uint64_t n) { return std::to_string(n) + " bytes"; }

}  // namespace

std::int64_t NpyArray::size() const {
  return static_cast<std::int64_t>(header.bytes / header.item);
}

NpyArray read_npy(const std::string& path) {
  ByteFile file(path);
  NpyArray out;
  out.title = path;
  std::vector<std::uint8_t> head;
  file.append(head, numpy::kStart);
  const std::uint64_t whole = numpy::header_bytes(head, path);
  file.append(head, whole - std::min<std::uint64_t>(whole, head.size()));
  out.header = numpy::parse_header(head, path);
  // A header may be shorter than the bytes that tell its length.
  out.values.assign(head.begin() + static_cast<std::ptrdiff_t>(whole), head.end());
  const std::string claim = bytes_text(out.header.bytes) + " for its shape and type";
  const auto cut = [&](std::uint64_t got) {
    throw DataError(ErrorText{.what = "the file is too short for its header",
                              .found = bytes_text(got),
                              .expected = claim,
                              .fix = "the file was cut; fetch it again",
                              .file = path});
  };
  if (out.header.bytes > file.max_bytes()) cut(file.file_bytes());
  const std::uint64_t wanted =
      out.header.bytes - std::min<std::uint64_t>(out.header.bytes, out.values.size());
  file.append(out.values, wanted);
  if (out.values.size() < out.header.bytes) cut(out.values.size());
  if (out.values.size() > out.header.bytes || file.skip(1) > 0)
    throw DataError(ErrorText{.what = "bytes follow the last value",
                              .expected = claim,
                              .fix = "the header is damaged; save the array again",
                              .file = path});
  settle(out);
  return out;
}

NpyArray read_npz(const std::string& path, const std::string& name) {
  { ByteFile there(path); }  // a missing file or a folder is named as everywhere
  const zip::Reader archive(path);
  const zip::Member* member = archive.find(name + ".npy");
  if (member == nullptr) {
    std::vector<std::string> known;
    for (const zip::Member& m : archive.members())
      known.push_back(m.name.ends_with(".npy") ? m.name.substr(0, m.name.size() - 4) : m.name);
    throw DataError(ErrorText{.what = "the archive has no array '" + name + "'",
                              .found = known.empty() ? "an empty archive" : names_text(known),
                              .expected = "an array of that name",
                              .fix = "name the arrays with `x_name` and `y_name`",
                              .file = path});
  }
  NpyArray out;
  out.title = path + ", array '" + name + "'";
  out.values = archive.read(*member);
  const std::span<const std::uint8_t> all(out.values);
  const std::uint64_t whole =
      numpy::header_bytes(all.first(std::min<std::size_t>(all.size(), numpy::kStart)), out.title);
  out.header = numpy::parse_header(
      all.first(std::min<std::size_t>(all.size(), static_cast<std::size_t>(whole))), out.title);
  const std::uint64_t left = out.values.size() - whole;
  if (left != out.header.bytes)
    throw DataError(ErrorText{.what = "the array has not the size that its header says",
                              .found = bytes_text(left),
                              .expected = bytes_text(out.header.bytes),
                              .fix = "save the archive again",
                              .file = out.title});
  out.values.erase(out.values.begin(), out.values.begin() + static_cast<std::ptrdiff_t>(whole));
  settle(out);
  return out;
}

void transpose(NpyArray& array, const std::vector<std::size_t>& order) {
  const std::size_t rank = order.size(), item = array.header.item;
  const std::vector<std::int64_t> from = array.header.shape;
  std::vector<std::size_t> stride(rank, item), step(rank), extent(rank), at(rank, 0);
  for (std::size_t k = rank - 1; k-- > 0;)
    stride[k] = stride[k + 1] * static_cast<std::size_t>(from[k + 1]);
  for (std::size_t k = 0; k < rank; ++k) {
    step[k] = stride[order[k]];
    array.header.shape[k] = from[order[k]];
    extent[k] = static_cast<std::size_t>(from[order[k]]);
  }
  std::vector<std::uint8_t> out(array.values.size());
  const std::uint8_t* source = array.values.data();
  for (std::size_t to = 0; to < out.size(); to += item) {
    std::memcpy(out.data() + to, source, item);
    for (std::size_t k = rank; k-- > 0;) {  // the next index, the last axis fastest
      source += step[k];
      if (++at[k] < extent[k]) break;
      source -= step[k] * extent[k];
      at[k] = 0;
    }
  }
  array.values = std::move(out);
}

void require_finite(const NpyArray& array) {
  if (array.header.kind != 'f') return;
  const auto n = static_cast<std::size_t>(array.size());
  with_type(array.header, [&](auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < n; ++i) {
      const auto v = static_cast<float>(load<T>(array, i));
      if (std::isfinite(v)) continue;
      const std::size_t row = i / (n / static_cast<std::size_t>(array.header.shape[0]));
      const double whole = wide(load<T>(array, i));
      const std::string found = std::isnan(v)          ? "NaN"
                                : std::isfinite(whole) ? fmt::format("{}", whole)
                                                       : "an infinite value";
      throw DataError(ErrorText{.what = "a value is not a finite f32 number",
                                .found = found + " in row " + std::to_string(row),
                                .expected = "finite numbers",
                                .fix = "correct or drop the row",
                                .file = array.title});
    }
  });
}

void to_floats(const NpyArray& array, std::size_t first, std::size_t count, float* out) {
  with_type(array.header, [&](auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<T>(array, first + i));
  });
}

std::int64_t integer_at(const NpyArray& array, std::size_t i) {
  return with_type(array.header, [&](auto type) -> std::int64_t {
    using T = decltype(type);
    const T v = load<T>(array, i);
    if constexpr (std::is_same_v<T, std::uint64_t>)
      return static_cast<std::int64_t>(std::min<T>(v, std::numeric_limits<std::int64_t>::max()));
    else if constexpr (std::is_integral_v<T>)
      return v;
    else
      return static_cast<std::int64_t>(wide(v));
  });
}

}  // namespace belfry
