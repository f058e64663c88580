// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/allreduce/fold_args.h"
#include "belfry/device/stream.h"

namespace belfry {

// Launches the fold of `rows` segments with the kernel compiled for f.n sources, or the general one
// where a source is absent or there are more than 8. Both add in the same order.
void launch_fold(Stream& stream, std::size_t rows, const FoldArgs& f);

}  // namespace belfry
