// SPDX-License-Identifier: MIT
#include "belfry/core/error.h"

#include <string>

#include "belfry/core/registry.h"
#include "belfry/tests/catch.h"

using namespace belfry;

namespace {
std::string located_text(std::exception_ptr error) {
  try {
    rethrow_located(error, 0, 2, 3);
  } catch (const TowerError& e) {
    return std::string("TowerError ") + e.what();
  } catch (const DataError& e) {
    return std::string("DataError ") + e.what();
  }
}
struct Plugin {
  int value;
};
}  // namespace

TEST_CASE("An error's message holds every part that is there") {
  const ConfigError all(ErrorText{.what = "key 'a.b'",
                                  .found = "8",
                                  .expected = "9",
                                  .fix = "try 9",
                                  .file = "x.toml",
                                  .line = 3,
                                  .column = 5,
                                  .rank = 0,
                                  .tower = 1,
                                  .update = 7});
  CHECK(std::string(all.what()) ==
        "x.toml:3:5: key 'a.b': found 8, expected 9; try 9 [rank 0, tower 1, update 7]");
  CHECK(std::string(DataError("plain").what()) == "plain");
  CHECK(std::string(DataError(ErrorText{.what = "w", .expected = "e", .file = "f"}).what()) ==
        "f: w: expected e");
  CHECK(name_of(all.kind()) == "ConfigError");
}

TEST_CASE("A located error keeps its class and places already known") {
  const auto data = std::make_exception_ptr(DataError(ErrorText{.what = "bad row", .update = 9}));
  CHECK(located_text(data) == "DataError bad row [rank 0, tower 2, update 9]");
  CHECK_THROWS_AS(throw_error(ErrorClass::comm, {.what = "x"}), CommError);
}

TEST_CASE("A foreign exception comes nested in a TowerError with all its messages") {
  std::exception_ptr nested;
  try {
    try {
      throw std::out_of_range("inner");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("outer"));
    }
  } catch (...) {
    nested = std::current_exception();
  }
  CHECK(located_text(nested) == "TowerError outer: inner [rank 0, tower 2, update 3]");
  CHECK(located_text(std::make_exception_ptr(5)) ==
        "TowerError an exception that is not a std::exception [rank 0, tower 2, update 3]");
  try {
    rethrow_located(nested, 0, 0, 1);
  } catch (const std::exception& e) {
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::runtime_error);
  }
}

TEST_CASE("The nearest name forgives one slip, case, and nothing more in short words") {
  const std::vector<std::string> names = {"batch", "learning_rate", "momentum", "lr"};
  CHECK(nearest_name("learning_rat", names) == "learning_rate");
  CHECK(nearest_name("Batch", names) == "batch");
  CHECK(nearest_name("bacth", names) == "batch");
  CHECK(nearest_name("rl", names) == "lr");
  CHECK(nearest_name("beta2", names) == "");
  CHECK(nearest_name("seed", names) == "");
}

TEST_CASE("A table knows its names and refuses twins and strangers") {
  Registry registry;
  registry.table<Plugin>().add("sgd", {1});
  registry.table<Plugin>().add("adam", {2});
  CHECK(registry.table<Plugin>().at("adam", "optimizer").value == 2);
  CHECK_THROWS_WITH(registry.table<Plugin>().add("sgd", {3}), "'sgd' is registered twice");
  CHECK_THROWS_WITH(registry.table<Plugin>().at("Adam", "optimizer"),
                    "unknown optimizer: found 'Adam', expected one of adam, sgd; did you mean "
                    "'adam'?");
}
