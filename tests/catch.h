// SPDX-License-Identifier: MIT
// The only place that names the test framework.
#pragma once
#include <catch2/catch.hpp>
