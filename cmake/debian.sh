#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# debian.sh GROUP|PACKAGE... : installs the Debian packages that are missing; the groups are "build",
# "tests" and "fuzz". Needs root or sudo, and the network, only when something is missing.
set -euo pipefail

missing=()
want() {
  local package
  for package in "$@"; do
    case "$package" in
      build)
        want g++ cmake ninja-build libeigen3-dev libdnnl-dev libtomlplusplus-dev libcli11-dev \
          nlohmann-json3-dev libfmt-dev libspdlog-dev zlib1g-dev libxxhash-dev \
          libjpeg62-turbo-dev libpng-dev libdeflate-dev
        ;;
      tests) want catch2 ;;
      fuzz) want clang-16 libclang-rt-16-dev ;;
      *)
        if ! dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed'; then
          missing+=("$package")
        fi
        ;;
    esac
  done
}
want "$@"
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

echo "installing: ${missing[*]}"
root=""
if [ "$(id -u)" -ne 0 ]; then root="sudo"; fi
install() {
  $root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}
# Without package lists the first try fails, and only then are they fetched.
if ! install >/dev/null 2>&1; then
  $root apt-get update >/dev/null
  install >/dev/null
fi
