// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"

namespace belfry {

// Registry entry of batch_norm: cases, plain reference, misuses.
OpEntry batch_norm_entry();

}  // namespace belfry
