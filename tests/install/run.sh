#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh BUILD_FOLDER : installs the build to a prefix and uses it as a stranger would: nothing in it
# names the source or build tree, the command starts, and the examples build and pass their tests
# with find_package(Belfry) while the build tree and the headers of Eigen and oneDNN are hidden.
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
if grep -rlF -e "$build" -e "$source" "$work/prefix"; then
  echo "the installed files above name $build or $source"
  exit 1
fi
if find "$work/prefix/include" -name '*_internal.h' | grep .; then
  echo "the headers above are private"
  exit 1
fi
mkdir "$work/examples"
if [ -d "$source/apps/examples" ]; then cp -r "$source/apps/examples/." "$work/examples"; fi

hide() {
  mount -t tmpfs none "$build"
  local path
  for path in /usr/include/eigen3 /usr/include/oneapi; do
    if [ -d "$path" ]; then mount -t tmpfs none "$path"; fi
  done
  echo '#error "a private header is visible"' >"$work/error.h"
  for path in /usr/include/dnnl*.h /usr/include/dnnl*.hpp; do
    if [ -f "$path" ]; then mount --bind "$work/error.h" "$path"; fi
  done
}

use() {
  local folder name
  if [ -x "$work/prefix/bin/belfry" ]; then "$work/prefix/bin/belfry" --help >/dev/null; fi
  for folder in "$work"/examples/*/; do
    name=$(basename "$folder")
    if [ ! -e "$folder/CMakeLists.txt" ]; then continue; fi
    echo "example $name"
    cmake -G Ninja -S "$folder" -B "$work/build/$name" -DCMAKE_PREFIX_PATH="$work/prefix" \
      -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$work/build/$name"
    ctest --test-dir "$work/build/$name" --output-on-failure --no-tests=ignore
  done
}

export build work
export -f hide use
if unshare -rm true 2>/dev/null; then
  unshare -rm bash -euo pipefail -c 'hide; use'
else
  echo "no mount namespaces here: the build tree and the private headers stay visible"
  use
fi
echo "install: ok"
