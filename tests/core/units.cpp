// SPDX-License-Identifier: MIT
#include "belfry/core/units.h"

#include "belfry/core/error.h"
#include "belfry/tests/catch.h"

using belfry::ConfigError;
using belfry::Period;

TEST_CASE("Periods parse and print") {
  const auto round_trip = [](const char* text) { return to_string(Period::parse(text)); };
  CHECK(round_trip("500u") == "500u");
  CHECK(round_trip("500") == "500u");
  CHECK(round_trip("0u") == "0u");
  CHECK(round_trip("2e") == "2e");
  CHECK(round_trip("0.5e") == "0.5e");
  CHECK(round_trip("10krows") == "10krows");
  CHECK(round_trip("1000krows") == "1Mrows");
  CHECK(round_trip("1.5Mrows") == "1500krows");
  CHECK(round_trip("64rows") == "64rows");
  CHECK(Period::parse("2e").unit == Period::Unit::epochs);
  CHECK(round_trip("1.001krows") == "1001rows");  // 1.001 * 1000 is below 1001 in binary
  CHECK(round_trip("4.1Mrows") == "4100krows");
}

TEST_CASE("What is not a period is refused by name") {
  for (const char* text : {"", "u", "-1u", "1.5u", "1e3", "5x", "1 u", "2ee", "krows",
                           "0.0001krows", "nan", "inf", ".5e", "9007199254740993u", "1k", "+1u"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Period::parse(text), ConfigError);
  }
  CHECK_THROWS_WITH(Period::parse("5x", "warmup"),
                    "warmup: found '5x', expected a length such as 500u (updates), 2e (epochs), "
                    "10krows or 1Mrows (rows)");
}

TEST_CASE("Periods turn into updates, rounded up") {
  CHECK(Period::parse("7u").to_updates(0, 0) == 7);
  CHECK(Period::parse("2e").to_updates(3823, 955) == 10);  // 5 updates an epoch, the last of 3 rows
  CHECK(Period::parse("0.5e").to_updates(3823, 955) == 3);
  CHECK(Period::parse("1.1e").to_updates(50, 1) == 55);  // not 56 for a digit of binary
  CHECK(Period::parse("1.11e").to_updates(50, 1) == 56);
  CHECK(Period::parse("10krows").to_updates(0, 128) == 79);
  CHECK(Period::parse("1Mrows").to_updates(60000, 1000) == 1000);
  CHECK_THROWS_WITH(Period::parse("2e").to_updates(0, 128),
                    Catch::Contains("'2e' counts epochs") && Catch::Contains("500u"));
  CHECK_THROWS_AS(Period::parse("10rows").to_updates(0, 0), ConfigError);
}
