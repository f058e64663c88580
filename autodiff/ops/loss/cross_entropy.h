// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "belfry/autodiff/loss.h"
#include "belfry/autodiff/tensor.h"

namespace belfry {

// Softmax cross-entropy of logits [..., classes] and i32 labels [...]: the mean over the labels
// that are not `ignore`, and their number as the weight. With none of them: mean 0, weight 0,
// gradient 0. NaN logits give a NaN loss. A label outside [0, classes) is a DataError with its row
// where the device's memory can be read by the host, elsewhere a NaN loss. `smoothing` s in [0, 1)
// takes 1 - s at the label and s / classes everywhere for the target (Szegedy et al., 2016).
Loss cross_entropy(const Tensor& logits, const Tensor& labels,
                   std::optional<std::int32_t> ignore = {}, double smoothing = 0);

}  // namespace belfry
