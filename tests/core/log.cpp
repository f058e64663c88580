// SPDX-License-Identifier: MIT
#include "belfry/core/log.h"

#include <vector>

#include "belfry/tests/catch.h"

using namespace belfry;

TEST_CASE("A log passes on what is at its level, and a once-warning once") {
  std::vector<std::string> lines;
  const Log log([&](LogLevel level, std::string_view text) {
    lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(text));
  });
  const Log copy = log;
  log.debug("hidden {}", 1);
  log.info("loss {:.2f}", 0.125);
  log.warn_once("cores", "{} threads on {} cores", 8, 2);
  copy.warn_once("cores", "{} threads on {} cores", 8, 2);
  copy.error("{{}}");
  CHECK(lines == std::vector<std::string>{"1 loss 0.12", "2 8 threads on 2 cores", "3 {}"});
  Log().error("silent");
  CHECK_FALSE(Log().enabled(LogLevel::error));
}
