// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/autodiff/op.h"

namespace belfry {

// Cases and misuses of the registry's entry.
OpEntry attention_entry();

}  // namespace belfry
