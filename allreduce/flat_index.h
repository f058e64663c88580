// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "belfry/device/types.h"

namespace belfry {

inline constexpr std::size_t kBlock = 4096;        // elements; the unit of ownership and statistics
inline constexpr std::size_t kVariableAlign = 64;  // elements; so that a lane never changes

// A variable's place in flat memory.
struct FlatVariable {
  std::string name;
  Shape shape;
  std::size_t offset = 0;  // elements
  std::size_t size = 0;    // elements, without padding
};

// The piece of one variable that lies in one block, padding included: a multiple of 64 elements.
struct Segment {
  int variable = 0;
  std::size_t offset = 0;
  std::size_t size = 0;
};

// Whole blocks [first, first + blocks).
struct Bucket {
  std::size_t first = 0;
  std::size_t blocks = 0;
};

// Where every variable lies in the flat gradient, parameters and optimizer state: in reverse order
// of construction, so that gradients complete front to back. Depends on nothing but the variables;
// the number of towers only decides who handles which blocks. Pure data.
class FlatIndex {
 public:
  FlatIndex() = default;
  // Variables in order of construction. Two of one name are a ConfigError.
  FlatIndex(const std::vector<std::string>& names, const std::vector<Shape>& shapes);

  const std::vector<FlatVariable>& variables() const { return variables_; }
  int find(const std::string& name) const;  // -1 when absent
  std::size_t blocks() const { return blocks_; }
  std::size_t elements() const { return blocks_ * kBlock; }
  std::size_t parameters() const { return parameters_; }  // without padding
  const std::vector<Segment>& segments() const { return segments_; }
  // The segments of block b: [first_segment(b), first_segment(b + 1)).
  std::size_t first_segment(std::size_t block) const { return first_segment_[block]; }

 private:
  std::vector<FlatVariable> variables_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> first_segment_{0};
  std::size_t blocks_ = 0, parameters_ = 0;
};

// Cuts `blocks` into buckets: the first of `first_bytes` so that exchange starts early, the rest of
// `bytes` (PyTorch DDP's 1 and 25 MiB). Every bucket has at least one block.
std::vector<Bucket> plan_buckets(std::size_t blocks, std::size_t first_bytes = std::size_t{1} << 20,
                                 std::size_t bytes = std::size_t{25} << 20);

// Member `rank`'s slice of a bucket: ceil(blocks / members) each, the last ones shorter or empty.
Bucket slice_of(const Bucket& bucket, int rank, int members);

// The first (rows mod parts) of `parts` contiguous parts have one row more: first row and count.
struct RowPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
RowPart part_of(std::int64_t rows, std::int64_t part, std::int64_t parts);

}  // namespace belfry
