#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains LeNet on the 60,000 images of Fashion-MNIST with two CPU towers. On a bare Debian 12 it
# installs what is missing and builds first. Arguments go to `belfry train`.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/debian.sh build dataset-fashion-mnist
if [ ! -e build/release/build.ninja ]; then
  # The tests need Catch2, which a demo need not install; tests/run.sh turns them on again.
  cmake --preset release -DBELFRY_TESTS=OFF
fi
cmake --build build/release --target belfry_command -j "${BELFRY_JOBS:-$(nproc)}"
# A folder of its own for each run: the command refuses one that holds a run.
exec build/release/bin/belfry train apps/configs/fashion-lenet.toml \
  --set "output=\"runs/fashion-lenet-$(date +%Y%m%d-%H%M%S)\"" "$@"
