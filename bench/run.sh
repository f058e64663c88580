#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh BUILD_FOLDER [OUT_FOLDER [ROUNDS]] : the CPU's benches, in turn with PyTorch's same work where
# it is installed, ROUNDS (5) times: JSON of every run in OUT_FOLDER (BUILD_FOLDER/bench), and
# OUT_FOLDER/summary.json and summary.md with medians and spreads, step.svg and scaling.svg. Ratios are within a round. Run it on
# a machine that does nothing else.
set -euo pipefail
build=$(realpath "$1")
out=${2:-$build/bench}
rounds=${3:-5}
here=$(realpath "$(dirname "$0")")
rm -rf "$out"
mkdir -p "$out"
unset OMP_NUM_THREADS ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA BELFRY_ISA
{
  grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'
  echo "$(nproc) cores; L2 $(getconf LEVEL2_CACHE_SIZE) bytes; load $(cut -d' ' -f1 /proc/loadavg)"
  "$build/bin/belfry" --version
} >"$out/machine.txt"

python=python3  # the distribution's may be another, and have PyTorch
if ! python3 -c 'import torch' 2>/dev/null && [ -x /usr/bin/python3 ]; then python=/usr/bin/python3; fi
torch() {  # torch FILE SCRIPT ARGUMENTS
  local line file=$1
  shift
  if line=$("$python" "$here/peers/$1" "${@:2}" 2>"$out/torch.log"); then
    echo "$line" >"$file"
  else
    echo "no PyTorch for $*: ${line:-$(tail -n 1 "$out/torch.log")}" >&2
  fi
}
for ((r = 1; r <= rounds; r++)); do
  for model in mlp lenet resnet20 gpt; do
    batch=64
    if [ $model = gpt ]; then batch=8; fi
    for towers in 1 2; do
      if ((towers > $(nproc))); then continue; fi
      "$build/bin/bench_step" --model $model --towers $towers --batch $batch --rounds 1 \
        --json "$out/step-$model-$towers-$r.json" >/dev/null
      torch "$out/torch-$model-$towers-$r.txt" torch_steps.py $model $towers $batch
    done
  done
  for towers in 1 2; do
    if ((towers > $(nproc))); then continue; fi
    "$build/bin/bench_averaging" --towers $towers --rounds 3 \
      --json "$out/averaging-$towers-$r.json" >/dev/null
    if ((towers > 1)); then
      torch "$out/torch-averaging-$towers-$r.txt" torch_averaging.py $towers
    fi
  done
  for bench in ops loops loader checkpoint; do
    "$build/bin/bench_$bench" --rounds 1 --json "$out/$bench-$r.json" >/dev/null
  done
done
if (($(nproc) > 1)); then
  for model in mlp lenet resnet20 gpt; do
    batch=64 updates=500
    if [ $model = resnet20 ] || [ $model = gpt ]; then updates=15; fi
    if [ $model = gpt ]; then batch=8; fi
    "$build/bin/belfry" bench scaling --towers 1,2 --model $model --batch $batch \
      --updates $updates --rounds "$rounds" \
      --json "$out/scaling-$model.json" >/dev/null
  done
fi
python3 "$here/summary.py" "$out"
python3 "$here/plots.py" "$out"
cat "$out/summary.md"
