// SPDX-License-Identifier: MIT
#include "belfry/device/cuda/conv_plan.h"

namespace belfry {

std::string text(const ConvProblem& p) {
  static constexpr const char* kPasses[] = {"conv_forward", "conv_backward_data",
                                            "conv_backward_weights"};
  const ConvShape& s = p.shape;
  return std::string(kPasses[static_cast<int>(p.pass)]) + " of " +
         Shape({s.n, s.h, s.w, s.in}).text() + " and " + Shape({s.out, s.kh, s.kw, s.in}).text() +
         " giving " + Shape({s.n, s.oh, s.ow, s.out}).text() + ", stride " +
         std::to_string(s.stride) + ", padding " + std::to_string(s.padding) + ", in " +
         std::string(name_of(p.precision));
}

}  // namespace belfry
