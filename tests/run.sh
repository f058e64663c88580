#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything on a bare Debian 12 and runs all tests. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/debian.sh build tests
jobs=${BELFRY_JOBS:-$(nproc)}
# BELFRY_REQUIRE=cuda-sim: the CUDA plug-in and its tests must be built, not skipped.
cuda=AUTO
if [[ ",${BELFRY_REQUIRE:-}," == *,cuda-sim,* ]]; then cuda=ON; fi
cmake --preset release -DBELFRY_CUDA=$cuda
cmake --build --preset release -j "$jobs"
ctest --test-dir build/release -j 2 --output-on-failure "$@"
