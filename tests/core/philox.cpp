// SPDX-License-Identifier: MIT
#include "belfry/core/philox.h"

#include "belfry/tests/catch.h"

using belfry::Philox;

namespace {
void check_words(const Philox::Words& w, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                 std::uint32_t d) {
  CHECK(w.v[0] == a);
  CHECK(w.v[1] == b);
  CHECK(w.v[2] == c);
  CHECK(w.v[3] == d);
}
}  // namespace

// The known answers of Random123 1.14 (kat_vectors, philox4x32 10).
TEST_CASE("Philox gives the published known answers") {
  check_words(Philox{0, 0}(0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  check_words(Philox{0xffffffff, 0xffffffff}(0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff),
              0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  check_words(Philox{0xa4093822, 0x299f31d0}(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
              0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST_CASE("unit_float stays in [0, 1)") {
  CHECK(belfry::unit_float(0) == 0.0f);
  CHECK(belfry::unit_float(0xffffffffu) == 1.0f - 0x1p-24f);
  CHECK(belfry::unit_float(0x80000000u) == 0.5f);
}

TEST_CASE("Names hash by FNV-1a and purposes give different keys") {
  CHECK(belfry::name_hash("") == 14695981039346656037ull);
  CHECK(belfry::name_hash("a") == 0xaf63dc4c8601ec8cull);
  const Philox init = belfry::philox_key(7, belfry::Purpose::init);
  const Philox dropout = belfry::philox_key(7, belfry::Purpose::dropout);
  CHECK((init.key0 != dropout.key0 || init.key1 != dropout.key1));
}
