// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace belfry {

// "loss 1.2345", and where a label is a byte or a token (Dataset::label_unit()) also its unit and
// the perplexity: "loss 1.2345 nats/byte perplexity 3.437".
std::string loss_text(double loss, const std::string& label_unit);

}  // namespace belfry
