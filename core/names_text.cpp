// SPDX-License-Identifier: MIT
#include "belfry/core/names_text.h"

namespace belfry {

std::string names_text(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out.empty() ? "no names" : out;
}

}  // namespace belfry
