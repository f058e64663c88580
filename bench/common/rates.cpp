// SPDX-License-Identifier: MIT
#include "belfry/bench/common/rates.h"

namespace belfry::bench {

Samples CheckpointRounds::rate(const Samples& seconds) const {
  Samples out;
  for (const double s : seconds.values) out.add(bytes / s);
  return out;
}

}  // namespace belfry::bench
