// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "belfry/device/types.h"

namespace belfry {

// Why CPU towers cannot have a precision on this processor; "" when they can.
std::string cpu_precision_fault(Precision precision);

}  // namespace belfry
