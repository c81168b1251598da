#!/bin/bash
# Packs the GPU test programs and `ashlar` of a CUDA build, stripped, for a machine with a GPU and no
# compiler: a few megabytes, since they share most of their code.
#
#   tools/gpu_pack.sh [BUILD] [ARCHIVE]     default build/cuda, build/gpu_tests.tar.xz
#
# There: `python3 -m tarfile -e ARCHIVE T`; each T/*_cuda_test runs as it is, or under
# tools/gpu_sanitize.sh T.
set -euo pipefail

build=${1:-build/cuda}
archive=${2:-build/gpu_tests.tar.xz}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for program in "$build"/tests/*_cuda_test "$build"/ashlar; do
  strip -o "$folder/$(basename "$program")" "$program"
done
tar -C "$folder" -cf - . | xz -9 >"$archive"
ls -l "$archive"
