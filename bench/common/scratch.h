// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace belfry::bench {

// A folder below $TMPDIR, else /tmp, that goes with everything in it.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

}  // namespace belfry::bench
