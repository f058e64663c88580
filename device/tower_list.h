// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "belfry/device/types.h"

namespace belfry {

// The towers that a text asks for.
struct TowerList {
  Backend backend = Backend::cpu;
  bool simulated = false;   // "cuda-sim:N": only with a ContextOptions::platform that is one
  int count = 0;            // 0: "cuda:all", one a visible GPU
  std::vector<int> gpus{};  // cuda: the GPU of each tower, in order; empty with cuda:all
};

// "cpu:4", "cuda:all", "cuda:0,2", "cuda:0x4" (four towers on GPU 0), "cuda:0x2,1x2" (two on each),
// "cuda-sim:4". Throws ConfigError naming the text and the accepted forms.
TowerList parse_towers(const std::string& text);

}  // namespace belfry
