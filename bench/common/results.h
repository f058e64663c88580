// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "belfry/bench/common/timer.h"

namespace belfry::bench {

// "Intel(R) Xeon(R) Processor, 2 cores, avx2 avx512f avx512_bf16": what figures depend on.
std::string machine();

// The figures of one bench: printed as they come, and kept for a JSON file of
// {bench, machine, settings: {...}, figures: {name: {median, lowest, highest, rounds, unit}}}.
class Results {
 public:
  explicit Results(const std::string& bench);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  void setting(const std::string& name, const std::string& value);
  // Prints "text: median unit (lowest to highest)". Values times `scale` are in `unit`.
  void figure(const std::string& name, const std::string& text, const Samples& samples,
              const std::string& unit, double scale = 1);
  // A bound on a figure's median; a missed one is printed and makes passed() false.
  void at_most(const std::string& name, double bound);
  void at_least(const std::string& name, double bound);
  bool passed() const;
  void write(const std::string& path) const;  // nothing when the path is empty

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::bench
