// SPDX-License-Identifier: MIT
#pragma once

namespace belfry {

// Blocks the calling thread that long without using the processor. For artificial delays in tests
// and benches only: whoever waits for something waits through Host.
void delay(double seconds);

}  // namespace belfry
