// SPDX-License-Identifier: MIT
#include "belfry/bench/common/scratch.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "belfry/core/error.h"

namespace belfry::bench {

Scratch::Scratch()
    : path_(
          (std::filesystem::temp_directory_path() / ("belfry-bench-" + std::to_string(::getpid())))
              .string()) {
  std::filesystem::create_directories(path_);
}

Scratch::~Scratch() {
  std::error_code code;
  std::filesystem::remove_all(path_, code);
}

void Scratch::write(const std::string& name, const std::string& bytes) const {
  const std::filesystem::path path = path_ + "/" + name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) throw ConfigError(ErrorText{.what = "cannot write", .found = path.string()});
}

}  // namespace belfry::bench
