// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/core/formats/npy.h"

namespace belfry {

// An array in memory: C order, the machine's byte order, its values alone.
struct NpyArray {
  std::string title;  // for messages: the file, and the array's name in an archive
  numpy::Header header;
  std::vector<std::uint8_t> values;

  std::int64_t size() const;  // number of values
};

// Throw DataError.
NpyArray read_npy(const std::string& path);
NpyArray read_npz(const std::string& path, const std::string& name);

// Moves axes: axis k of the result is axis order[k] of `array`.
void transpose(NpyArray& array, const std::vector<std::size_t>& order);

// Throws DataError naming the row of the first value that is not finite in f32.
void require_finite(const NpyArray& array);

// The values [first, first + count) as f32, or as integers (of integer arrays only).
void to_floats(const NpyArray& array, std::size_t first, std::size_t count, float* out);
std::int64_t integer_at(const NpyArray& array, std::size_t i);

}  // namespace belfry
