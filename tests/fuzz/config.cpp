// SPDX-License-Identifier: MIT
// A training run's config file: TOML, every schema, every check before data is read. Lines that
// start with "#--set " are overrides of the command line.
#include "belfry/core/document.h"
#include "belfry/core/registry.h"
#include "belfry/towers/train_config.h"
#include "fuzz.h"

namespace belfry::fuzz {
namespace {

const Registry& registry() {
  static const Registry all = builtin();
  return all;
}

TrainConfig load(const std::string& text) {
  constexpr std::string_view kSet = "#--set ";
  Document document = Document::from_text(text, "fuzz.toml");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with(kSet)) document.set(std::string(line.substr(kSet.size())));
    at = end + 1;
  }
  return TrainConfig::load(std::move(document), registry());
}

}  // namespace
}  // namespace belfry::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  const std::string text(fuzz::text_of(data, size));
  std::string effective;
  if (!fuzz::accepts<ConfigError>([&] { effective = fuzz::load(text).effective; })) return 0;
  std::string again;
  fuzz::require(fuzz::accepts<ConfigError>([&] { again = fuzz::load(effective).effective; }),
                "an effective config loads");
  if (again != effective) std::fprintf(stderr, "%s\nbecomes\n%s", effective.c_str(), again.c_str());
  fuzz::require(again == effective, "an effective config is its own effective config");
  return 0;
}
