// SPDX-License-Identifier: MIT
// A checkpoint's manifest: JSON text. Its own checksum is renewed before it is parsed.
#include "belfry/towers/checkpoint/manifest.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace belfry;
  const std::string raw(fuzz::text_of(data, size));
  fuzz::accepts<CheckpointError>([&] { Manifest::parse(raw, "manifest.json"); });
  std::string text;
  if (!fuzz::accepts<CheckpointError>([&] { text = Manifest::sealed(raw); })) return 0;
  Manifest manifest;
  if (!fuzz::accepts<CheckpointError>([&] { manifest = Manifest::parse(text, "manifest.json"); }))
    return 0;
  const std::string written = manifest.text();
  std::string again;
  fuzz::require(fuzz::accepts<>([&] { again = Manifest::parse(written, "manifest.json").text(); }),
                "what was parsed can be written and parsed");
  fuzz::require(again == written, "a manifest comes back as it was");
  return 0;
}
