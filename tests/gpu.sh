#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All that needs a GPU, in 8 minutes at most.
#   tests/gpu.sh pack [FOLDER]  on Debian 12 with nvcc, no GPU needed: builds (or takes the build in
#                               FOLDER) and collects in build/gpu what the next needs, to be carried
#   tests/gpu.sh                on a machine with a GPU, the CUDA libraries and python3: runs what
#                               build/gpu has, else builds first. Figures go to $OUT/gpu.json, or
#                               build/gpu.json. Exit status 0: all passed; 77: there is no GPU
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=$root/build/gpu
programs="belfry test_gpu bench_gpu gpu_two_processes gpu_cudnn_properties"

pack() {
  local build=${1:-build/release} file name path
  [ $# -gt 0 ] || cmake --preset release
  cmake --build "$build" -j "${BELFRY_JOBS:-$(nproc)}" --target \
    belfry_command belfry_cuda test_gpu bench_gpu gpu_two_processes gpu_cudnn_properties
  rm -rf "$folder"
  mkdir -p "$folder"
  for file in $programs; do cp "$build/bin/$file" "$folder/"; done
  cp -L "$build/lib/libbelfry.so.0" "$build/lib/libbelfry_cuda.so" "$folder/"
  # The distribution's libraries, without what every machine with a GPU has.
  LD_LIBRARY_PATH=$folder ldd "$folder"/* | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
    while read -r name path; do
      case $name in
        libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libbelfry* | libcu* | libnccl* | libnv*) ;;
        *) cp -L "$path" "$folder/$name" ;;
      esac
    done
  strip --strip-unneeded "$folder"/*
  local kib
  kib=$(du -sk --apparent-size "$folder" | cut -f1)
  echo "build/gpu: $((kib / 1024)) MiB; needs glibc $(objdump -T "$folder"/* 2>/dev/null |
    grep -o 'GLIBC_2[.0-9]*' | sort -uV | tail -1 | cut -d_ -f2)"
  if ((kib >= 60 * 1024)); then echo "build/gpu: at most 60 MiB can be carried" && return 1; fi
}

# Folders of CUDA's libraries: those of Python packages, which fit each other, and the toolkit's.
cuda_folders() {
  python3 -c 'import glob, os, site, sys
folders = sys.path + site.getsitepackages() + [site.getusersitepackages()]
found = [lib for f in folders for lib in sorted(glob.glob(f + "/nvidia/*/lib"))]
for home in os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda":
    if home: found += [home + "/lib64", home + "/lib"]
print(*dict.fromkeys(f for f in found if os.path.isdir(f)), sep="\n")'
}

# Why there is no GPU; nothing when there is one.
no_gpu() {
  python3 -c 'import ctypes
try:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code: print("the NVIDIA driver returns error", code)
    elif count.value == 0: print("the NVIDIA driver sees no GPU")
except OSError as error:
    print("there is no NVIDIA driver:", error)'
}

# step NAME SECONDS COMMAND...: runs it within its own limit and what is left of all; one line of
# the table. A failure shows the end of its log.
failed=0
step() {
  local name=$1 limit=$2 left=$((480 - SECONDS)) rc=0 start=${EPOCHREALTIME/./} status seconds
  shift 2
  if ((limit > left)); then limit=$left; fi
  local log=$logs/$name.log
  if ((limit < 5)); then
    status="no time" seconds=0
    echo "" >"$log"
  else
    timeout -k 5 "$limit" "$@" >"$log" 2>&1 || rc=$?
    seconds=$(awk "BEGIN {printf \"%.1f\", (${EPOCHREALTIME/./} - $start) / 1e6}")
    case $rc in
      0) status=passed ;;
      77) status=skipped ;;
      124 | 137) status=time-out ;;
      *) status=failed ;;
    esac
  fi
  if [[ $status != passed && $status != skipped ]]; then failed=1; fi
  printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$status" "$seconds" "$limit" \
    "$(grep -v '^[=[:space:]]*$' "$log" | tail -1 | tr '\t' ' ' | cut -c1-150)" >>"$table"
  printf '%-18s %-9s %6s s of %3s  %s\n' "$name" "$status" "$seconds" "$limit" \
    "$(tail -1 "$table" | cut -f5)"
  if [[ $status == failed || $status == time-out ]]; then tail -25 "$log" | cut -c1-300 | sed 's/^/  | /'; fi
}

write_json() {
  python3 - "$table" "$out" >"$out/gpu.json" <<'PY'
import json, os, sys
table, out = sys.argv[1:]
names = ("name", "status", "seconds", "limit_seconds", "last_line")
result = {"checks": [dict(zip(names, line.rstrip("\n").split("\t"))) for line in open(table)]}
for check in result["checks"]:
    check["seconds"], check["limit_seconds"] = float(check["seconds"]), int(check["limit_seconds"])
for key in ("bench", "torch", "cudnn"):
    try:
        with open(f"{out}/gpu-{key}.json") as file:
            result[key] = json.load(file)
    except (OSError, ValueError):
        result[key] = None
json.dump(result, sys.stdout, indent=1)
PY
  echo "figures: $out/gpu.json, logs: $logs"
}

libraries() {  # all there?
  LD_LIBRARY_PATH=$path ldd "$folder"/* >"$logs/ldd.log" 2>&1 || true
  if grep 'not found' "$logs/ldd.log"; then return 1; fi
  grep -E '(libcublasLt|libnccl|libcudnn|libstdc).* => ' "$logs/ldd.log" | sed 's/ (0x.*//' | sort -u
}

devices() {  # is there one for the plug-in too?
  LD_LIBRARY_PATH=$path "$folder/belfry" devices | tee "$logs/found.log"
  grep -q '^cuda cuda:0: ' "$logs/found.log"
}

cudnn() {  # its own text of the device, for tests/cudnn/h200.h
  LD_LIBRARY_PATH=$path "$folder/gpu_cudnn_properties" >"$out/gpu-cudnn.json"
  cat "$out/gpu-cudnn.json"
}

# sanitize TOOL: compute-sanitizer on the kernels of ops, rules, fold and a recorded sequence.
sanitize() {
  local sanitizer
  sanitizer=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer) ||
    { echo "skipped: there is no compute-sanitizer" && return 77; }
  LD_LIBRARY_PATH=$path "$sanitizer" --tool "$1" --report-api-errors no --error-exitcode 9 \
    "$folder/test_gpu" "[short]"
}

run() {
  local why
  why=$(no_gpu)
  if [ -n "$why" ]; then echo "skipped: $why" && exit 77; fi
  mapfile -t folders < <(cuda_folders)
  if [ ! -x "$folder/test_gpu" ]; then
    echo "build/gpu is not there: building, which needs Debian 12's libraries"
    cmake --preset release -DCMAKE_PREFIX_PATH="$(printf '%s;' "${folders[@]%/lib*}")"
    pack build/release
    SECONDS=0
  fi
  path=$folder:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(IFS=: && echo "${folders[*]}")
  out=${OUT:-$root/build}
  logs=$out/gpu-logs
  mkdir -p "$logs"
  rm -f "$out"/gpu{,-bench,-torch,-cudnn}.json "$logs"/*
  table=$logs/table.tsv
  : >"$table"
  trap write_json EXIT
  export -f libraries devices cudnn sanitize
  export folder logs out path
  unset BELFRY_CUDA_PLUGIN
  local with=(env "LD_LIBRARY_PATH=$path")
  step libraries 20 bash -ec libraries
  step devices 30 bash -ec devices
  step ops 60 "${with[@]}" "$folder/test_gpu" "[ops]" -d yes
  step rules 30 "${with[@]}" "$folder/test_gpu" "[rules]" -d yes
  step engine 90 "${with[@]}" "$folder/test_gpu" "[engine]~[nccl]" -d yes
  step nccl 60 "${with[@]}" "$folder/test_gpu" "[nccl]" -d yes
  step capture 30 "${with[@]}" "$folder/test_gpu" "[capture]" -d yes
  step two_processes 110 "${with[@]}" "$folder/gpu_two_processes"
  step cudnn 30 bash -ec cudnn
  step bench 90 "${with[@]}" "$folder/bench_gpu" cuda:0 "$out/gpu-bench.json"
  step torch 90 python3 bench/peers/torch_gpu.py "$out/gpu-bench.json" "$out/gpu-torch.json"
  step memcheck 90 bash -ec 'sanitize memcheck'
  step racecheck 90 bash -ec 'sanitize racecheck'
  echo
  cat "$logs/devices.log" "$logs/bench.log" "$logs/torch.log"
  echo
  column -t -s $'\t' "$table" 2>/dev/null || cat "$table"
  exit "$failed"
}

case ${1:-} in
  pack) shift && pack "$@" ;;
  "") run ;;
  *) sed -n '3,10s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
