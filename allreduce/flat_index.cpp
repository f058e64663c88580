// SPDX-License-Identifier: MIT
#include "belfry/allreduce/flat_index.h"

#include <algorithm>

#include "belfry/core/error.h"

namespace belfry {
namespace {

std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

FlatIndex::FlatIndex(const std::vector<std::string>& names, const std::vector<Shape>& shapes) {
  std::size_t at = 0;
  for (std::size_t i = names.size(); i-- > 0;) {
    if (find(names[i]) >= 0) throw ConfigError("two variables are called '" + names[i] + "'");
    const auto size = static_cast<std::size_t>(shapes[i].size());
    variables_.push_back({names[i], shapes[i], at, size});
    parameters_ += size;
    at += up(size, kVariableAlign);
  }
  blocks_ = up(at, kBlock) / kBlock;
  std::size_t v = 0;
  for (std::size_t b = 0; b < blocks_; ++b) {
    const std::size_t end = (b + 1) * kBlock;
    for (; v < variables_.size() && variables_[v].offset < end; ++v) {
      const std::size_t first = std::max(variables_[v].offset, b * kBlock);
      const std::size_t last =
          std::min(variables_[v].offset + up(variables_[v].size, kVariableAlign), end);
      if (last > first) segments_.push_back({static_cast<int>(v), first, last - first});
      if (variables_[v].offset + variables_[v].size > end) break;  // goes on in the next block
    }
    first_segment_.push_back(segments_.size());
  }
}

int FlatIndex::find(const std::string& name) const {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (variables_[i].name == name) return static_cast<int>(i);
  return -1;
}

std::vector<Bucket> plan_buckets(std::size_t blocks, std::size_t first_bytes, std::size_t bytes) {
  const auto in_blocks = [](std::size_t b) {
    return std::max<std::size_t>(1, b / (kBlock * sizeof(float)));
  };
  std::vector<Bucket> out;
  for (std::size_t at = 0; at < blocks;) {
    const std::size_t n = std::min(in_blocks(out.empty() ? first_bytes : bytes), blocks - at);
    out.push_back({at, n});
    at += n;
  }
  return out;
}

Bucket slice_of(const Bucket& bucket, int rank, int members) {
  const auto n = static_cast<std::size_t>(members), r = static_cast<std::size_t>(rank);
  const std::size_t each = (bucket.blocks + n - 1) / n;
  const std::size_t first = std::min(r * each, bucket.blocks),
                    last = std::min(first + each, bucket.blocks);
  return {bucket.first + first, last - first};
}

RowPart part_of(std::int64_t rows, std::int64_t part, std::int64_t parts) {
  const std::int64_t each = rows / parts, more = rows % parts;
  return {part * each + std::min(part, more), each + (part < more ? 1 : 0)};
}

}  // namespace belfry
