// SPDX-License-Identifier: MIT
#pragma once
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "belfry/tests/catch.h"

namespace belfry::test {

// `name` inside the folder of real data: $BELFRY_DATA, else shared/data beside the source tree.
// When it is not there the test prints why and has nothing to do.
inline std::optional<std::string> real_data(const std::string& name) {
  const char* set = std::getenv("BELFRY_DATA");
  const std::filesystem::path folder =
      set != nullptr ? set : std::filesystem::path(BELFRY_SOURCE_DIR) / ".." / "shared" / "data";
  if (std::filesystem::exists(folder / name)) return (folder / name).string();
  WARN("skipped: no " << (folder / name).string()
                      << "; set BELFRY_DATA to the folder that holds it");
  return std::nullopt;
}

// `name` inside Debian's package dataset-fashion-mnist.
inline std::optional<std::string> fashion_mnist(const std::string& name) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (std::filesystem::exists(folder / name)) return (folder / name).string();
  WARN("skipped: no " << (folder / name).string() << "; install the package dataset-fashion-mnist");
  return std::nullopt;
}

}  // namespace belfry::test
