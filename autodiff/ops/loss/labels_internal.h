// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/loss/label_filter.kernel.h"

namespace belfry {

inline LabelFilter label_filter(std::optional<std::int32_t> ignore) {
  return {ignore.value_or(0), ignore.has_value()};
}

// Throws GradientError unless logits are [..., classes] of floats and labels i32 [...], one device.
// Puts a check of the labels' range on the stream: where the host can read them it throws
// DataError, elsewhere it leaves its finding in the scope's label_fault, for the engine to throw.
void check_labels(const char* op, const Tensor& logits, const Tensor& labels, LabelFilter filter);

// The same for indices into a table of `count` rows, of any shape; the message says index.
void check_indices(const Tensor& indices, std::int64_t count);

// The misuses that every op of logits and labels has.
std::vector<OpMisuse> label_misuses(const char* op,
                                    std::function<void(const Tensor&, const Tensor&)> call);

}  // namespace belfry
