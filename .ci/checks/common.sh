# SPDX-License-Identifier: MIT
# Sourced by every check: the repository's own sources, and how a check reports.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
set -euo pipefail

library_folders="core device autodiff allreduce data optim towers apps"

# sources FOLDER... : C++ files under those folders that exist, one a line.
sources() {
  local folder
  for folder in "$@"; do
    if [ -d "$folder" ]; then
      find "$folder" -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' \)
    fi
  done | sort
}

# report NAME FINDINGS : prints what was found and fails, or says that all is well.
report() {
  if [ -n "$2" ]; then
    printf '%s\n' "$2"
    printf '%s: FAILED\n' "$1"
    exit 1
  fi
  printf '%s: ok\n' "$1"
}
