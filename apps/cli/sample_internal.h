// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "belfry/apps/cli/commands_internal.h"

namespace belfry {

// `belfry eval --sample`: a checkpoint's model continues a prompt, token by token. It runs on one
// CPU tower with one thread and draws by Philox from (seed, token's number), so the text does not
// depend on the config's towers.
struct SampleArguments {
  std::int64_t length = 0;  // tokens to add; 0: no sampling is asked for
  std::string prompt;
  double temperature = 1;
  std::int64_t top_k = 0, seed = 1;

  void declare(CLI::App& command);
  bool wanted() const { return wanted_->count() > 0; }
  void check() const;  // throws ConfigError

 private:
  CLI::Option* wanted_ = nullptr;
  std::vector<CLI::Option*> others_;
};

// Which of the logits is next: `draw` in [0, 1) falls into the distribution of the top_k largest
// (0: all; of equals the first) at this temperature; 0 takes the largest. Throws NumericError when
// no logit is finite or one is NaN.
std::int64_t next_token(const std::vector<double>& logits, double temperature, std::int64_t top_k,
                        double draw);

// What the command does with the config's newest checkpoint, or that at `checkpoint`.
int sample(CliContext& context, TrainConfig config, const std::string& checkpoint, bool ema,
           const SampleArguments& arguments);

}  // namespace belfry
