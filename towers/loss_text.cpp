// SPDX-License-Identifier: MIT
#include "belfry/towers/loss_text.h"

#include <fmt/format.h>

#include <cmath>

namespace belfry {

std::string loss_text(double loss, const std::string& label_unit) {
  const std::string text = fmt::format("loss {:.4f}", loss);
  if (label_unit.empty()) return text;
  return text + fmt::format(" nats/{} perplexity {:.4g}", label_unit, std::exp(loss));
}

}  // namespace belfry
