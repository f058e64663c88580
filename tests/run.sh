#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything on a bare Debian 12 and runs all tests. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/debian.sh build tests
jobs=${BELFRY_JOBS:-$(nproc)}
cmake --preset release
cmake --build --preset release -j "$jobs"
ctest --test-dir build/release -j 2 --output-on-failure "$@"
