// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <limits>

#include "belfry/core/host_device.h"

namespace belfry {

inline constexpr int kTeamLanes = 64;

struct SumOp {
  template <class R>
  BELFRY_HD static R id() {
    return R(0);
  }
  template <class R>
  BELFRY_HD static R op(R a, R b) {
    return a + b;
  }
};
struct MaxOp {
  template <class R>
  BELFRY_HD static R id() {
    return -std::numeric_limits<R>::infinity();
  }
  template <class R>
  BELFRY_HD static R op(R a, R b) {
    return a > b || a != a ? a : b;
  }  // keeps NaN
};

// The workers of one row on the host: kTeamLanes partial results (index i goes to lane i mod 64)
// added by halves, the order of a device block, so that both round alike.
struct HostTeam {
  template <class Op, class R, class F>
  BELFRY_HD R fold(std::size_t n, F f) const {
    R p[kTeamLanes];
    int lanes = 1;  // lanes beyond n hold the identity: leaving them out changes no bit
    while (lanes < kTeamLanes && static_cast<std::size_t>(lanes) < n) lanes *= 2;
    for (int t = 0; t < lanes; ++t)
      p[t] =
          static_cast<std::size_t>(t) < n ? f(static_cast<std::size_t>(t)) : Op::template id<R>();
    for (std::size_t i = static_cast<std::size_t>(lanes); i < n; i += kTeamLanes) {
      const std::size_t m = n - i < kTeamLanes ? n - i : kTeamLanes;
      for (std::size_t t = 0; t < m; ++t) p[t] = Op::template op<R>(p[t], f(i + t));
    }
    for (int s = lanes / 2; s > 0; s /= 2)
      for (int t = 0; t < s; ++t) p[t] = Op::template op<R>(p[t], p[t + s]);
    return p[0];
  }
  template <class R, class F>
  BELFRY_HD R sum(std::size_t n, F f) const {
    return fold<SumOp, R>(n, f);
  }
  template <class R, class F>
  BELFRY_HD R max(std::size_t n, F f) const {
    return fold<MaxOp, R>(n, f);
  }
  template <class F>
  BELFRY_HD void each(std::size_t n, F f) const {  // indices are independent
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};

}  // namespace belfry
