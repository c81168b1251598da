#!/bin/bash
# Runs NVIDIA's compute-sanitizer over the GPU test programs, small cases only, in about six minutes.
#
#   tools/gpu_sanitize.sh [FOLDER]          FOLDER: with the programs *_cuda_test; default build/cuda/tests
#
# One line a tool and group of tests: clean, or what was found, or what kept it from an answer. Exit
# status: 0 all clean, 1 something was found, 2 nothing was found but not everything was seen (no
# device, a tool that the machine refuses, a group past its time).
# The machine needs the programs, a GPU and compute-sanitizer; neither CMake nor a compiler.
#   SANITIZER=PATH   another compute-sanitizer than the one of PATH or /usr/local/cuda
#   JOBS=4           groups at a time;  GROUP_SECONDS=150, after which one is given up
#   TOOLS="memcheck racecheck synccheck initcheck"   LOGS=FOLDER   where whole outputs stay
set -u

programs=${1:-build/cuda/tests}
jobs=${JOBS:-4}
seconds=${GROUP_SECONDS:-150}
tools=${TOOLS:-memcheck racecheck synccheck initcheck}
logs=${LOGS:-$(mktemp -d)}
sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
mkdir -p "$logs"
if [ ! -x "$sanitizer" ]; then
  echo "gpu_sanitize: there is no compute-sanitizer; SANITIZER=PATH names one"
  exit 2
fi

# name | program | tools that run it | filter. Tests that provoke failures on purpose, and row rules
# over every batch size, are left out: the one would be reported, the other takes hours there.
groups=$(cat <<'TABLE'
matmul|kernels_cuda_test|memcheck synccheck initcheck|TileMatmulCuda.*:-*ARowHasTheSameBits*:*SumsAreWithin*
matmul|kernels_cuda_test|racecheck|TileMatmulCuda.Bias*:TileMatmulCuda.Packing*:TileMatmulCuda.RowsAndColumns*
attention|kernels_cuda_test|memcheck synccheck initcheck|Cases/AttentionCudaCase.BatchMates*/[0389]:Cases/AttentionCudaCase.MixedSteps*/[0269]:*Cuts*
attention|kernels_cuda_test|racecheck|Cases/AttentionCudaCase.BatchMates*/[03]:Cases/AttentionCudaCase.MixedSteps*/[29]
ops|kernels_cuda_test|memcheck racecheck synccheck initcheck|RmsNormCuda.IsClose*:RmsNormCuda.AllKernels*:QkNorm*.Equals*:QkNorm*.ManyRows*:Gather*Cuda.*:StepRowsCuda.*:FillSyntheticCuda.*:CudaReadBytes.*:-*RowRule*
tensor_core|kernels_cuda_test|memcheck racecheck|TensorCoreBits.Zeros*:TensorCoreBits.OtherRows*
sampler|sampling_cuda_test|memcheck racecheck synccheck initcheck|SampleTokensCuda.Small*:SampleTokensCuda.WhatCannot*:CountTokensCuda.*:PlantedPad.IsNotCounted
device|device_cuda_test|memcheck racecheck synccheck|CudaDevice.Copies*:CudaDevice.AKernelThatStartsEarly*:CudaDevice.Clusters*:CudaDevice.ARecording*:CudaDevice.RowsAreCopied*
weights|formats_cuda_test|memcheck initcheck|TileWeightCuda.*:-*EveryStorage*:*Many*
models|models_cuda_test|memcheck initcheck|*AgreesWithTheCpu/qwen3:*AgreesWithTheCpu/gemma3
TABLE
)

# The shell's patterns are not GoogleTest's: [03] is written out.
expand() {
  local out="" part name set rest i
  IFS=: read -ra parts <<<"$1"
  for part in "${parts[@]}"; do
    if [[ $part =~ ^(.*)\[([0-9]+)\](.*)$ ]]; then
      name=${BASH_REMATCH[1]} set=${BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
      for ((i = 0; i < ${#set}; ++i)); do out+=":$name${set:i:1}$rest"; done
    else
      out+=":$part"
    fi
  done
  echo "${out:1}"
}

options() {
  echo "--tool $1 --error-exitcode 99 --report-api-errors no --print-limit 20"
  if [ "$1" = racecheck ]; then echo "--racecheck-report analysis"; fi
  if [ "$1" = initcheck ]; then echo "--track-unused-memory no"; fi
}

# verdict LOG STATUS: one word or phrase; "clean" alone is good.
verdict() {
  local found
  found=$(grep -aE '(ERROR|RACECHECK) SUMMARY:' "$1" | tail -1 | sed 's/^=* *//')
  if grep -aqiE 'device not supported|unable to initialize|not supported on this' "$1"; then
    echo "not seen: the sanitizer refuses this machine"
  elif [[ -n $found && ! $found =~ SUMMARY:\ 0\  ]]; then
    echo "FOUND: $found"
  elif [ "$2" = 124 ] || [ "$2" = 137 ]; then
    echo "not seen whole: stopped after $seconds s, nothing found until then"
  elif grep -aq '\[  FAILED  \]' "$1"; then
    echo "FOUND: tests fail: $(grep -a '\[  FAILED  \]' "$1" | awk '{print $4}' | sort -u | head -3 | xargs)"
  elif grep -aq '\[  SKIPPED \]' "$1"; then
    echo "not seen: tests were skipped, there is no device"
  elif ! grep -aq '\[  PASSED  \] [1-9]' "$1"; then
    echo "not seen: no test ran (exit $2)"
  elif [[ -z $found || $2 != 0 ]]; then
    echo "not seen: exit $2 without a summary"
  else
    echo clean
  fi
}

run_group() {
  local name=$1 program=$2 tool=$3 filter=$4 log status begin=$SECONDS answer
  log="$logs/$tool-$name.log"
  # shellcheck disable=SC2046  # options are words
  timeout -k 5 "$seconds" "$sanitizer" $(options "$tool") "$programs/$program" \
    --gtest_filter="$filter" >"$log" 2>&1
  status=$?
  answer=$(verdict "$log" "$status")
  printf '%-10s %-19s %-12s %3d s  %s\n' "$tool" "$program" "$name" $((SECONDS - begin)) "$answer"
  echo "$answer" >"$log.verdict"
}

rm -f "$logs"/*.verdict
for tool in $tools; do
  while IFS='|' read -r name program wanted filter; do
    [[ " $wanted " == *" $tool "* ]] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    run_group "$name" "$program" "$tool" "$(expand "$filter")" &
  done <<<"$groups"
done
wait

echo "whole outputs: $logs"
if grep -q FOUND "$logs"/*.verdict; then exit 1; fi
if grep -qvx clean "$logs"/*.verdict; then exit 2; fi
