// SPDX-License-Identifier: MIT
#pragma once

namespace belfry {

// Of one segment of a variable, for rules whose rate depends on whole variables: sums over its
// elements, in the order of a team's fold.
struct SegmentNorms {
  float direction = 0;  // |u|^2, u the rule's step before the rate
  float parameter = 0;  // |theta|^2
};

}  // namespace belfry
