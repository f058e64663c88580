// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/random/dropout_draw_internal.h"

#include "belfry/autodiff/op.h"
#include "belfry/core/error.h"

namespace belfry {

DropoutDraw next_dropout(const char* op, const Tensor& x, double p, std::uint64_t path) {
  if (!(p >= 0 && p < 1))
    throw ConfigError(ErrorText{.what = "dropout probability is out of range",
                                .found = std::to_string(p),
                                .expected = "at least 0 and below 1"});
  Scope* scope = Scope::current();
  if (scope == nullptr || !scope->options().training || p == 0) return {};
  const Scope::Options& o = scope->options();
  if (o.rows >= 0 && x.shape()[0] != o.rows)
    throw_op(op, "the batch must stay the outermost axis for ops that draw random numbers",
             x.shape().text() + " in a pass of " + std::to_string(o.rows) + " rows",
             "a leading extent of " + std::to_string(o.rows));
  const auto folded = static_cast<std::uint32_t>(path ^ (path >> 32));
  return {philox_key(o.seed, Purpose::dropout),
          folded ^ scope->next_draw(path),
          static_cast<std::uint32_t>(o.update),
          static_cast<std::uint32_t>(o.first_row),
          o.numbers,
          static_cast<float>(p)};
}

}  // namespace belfry
