// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// Which tokens of a stream a set uses, and how it cuts them into rows.
struct WindowOptions {
  std::int64_t context = 128;  // positions of a row
  std::int64_t first = 0;      // first token to use
  std::int64_t count = -1;     // how many; -1: all from `first` on
  std::string part = "all";    // of those: "train" without the last `holdout`, or "validation": it
  double holdout = 0.1;

  void declare(Schema& schema, const std::string& unit);  // "bytes", "tokens"
};

// A stream of tokens, in memory, cut into rows: "tokens" [context] i32, and "label" [context] i32,
// the token that follows each. Rows do not overlap; with n tokens there are (n - 1) / context. In a
// shuffled epoch all rows begin later by an offset that is drawn from (seed, epoch), the row across
// the end goes on at the beginning; so the rows of two epochs differ and do not depend on who reads
// them. Immutable.
class TokenWindows final : public Dataset {
 public:
  struct Content {
    std::vector<std::uint8_t> bytes;  // little endian
    std::size_t width = 1;            // bytes of a token: 1, 2 or 4
    std::int64_t classes = 256;       // 0: the largest token + 1
    std::string kind, unit;           // "text", "byte"
    std::string file;                 // for messages
    std::string warning{};
  };
  // Throws DataError for a token outside [0, classes) or too few tokens for one row, ConfigError
  // for options out of range.
  TokenWindows(Content content, const WindowOptions& options);

  std::int64_t rows() const override { return rows_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return content_.classes; }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override;
  void read_epoch(std::span<const std::int64_t> rows, const ReadEpoch& epoch,
                  std::span<void* const> out) const override;
  std::string describe() const override;
  std::string label_unit() const override { return content_.unit; }
  std::string warning() const override { return content_.warning; }

  std::int64_t tokens() const { return count_; }  // used
  std::int64_t token(std::int64_t index) const;   // of those used

 private:
  void cut(const WindowOptions& options);
  void check_tokens();
  void read_from(std::int64_t offset, std::span<const std::int64_t> rows,
                 std::span<void* const> out) const;

  Content content_;
  std::vector<Field> fields_;
  std::int64_t context_, first_ = 0, count_ = 0, rows_ = 0;
};

}  // namespace belfry
