// SPDX-License-Identifier: MIT
#include "belfry/core/delay.h"

#include <chrono>
#include <thread>

namespace belfry {

void delay(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace belfry
