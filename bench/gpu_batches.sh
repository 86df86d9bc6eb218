#!/bin/sh
# gpu_batches.sh - what was made of batches of small items, on a machine with a GPU
#
#   bench/gpu_batches.sh [FOLDER]
#
# Builds into build/gpu, runs the tables of the operations that go through a batch together and the
# count of launches on the device, and measures: batches, large items, training beside GPyTorch.
# Numbers go to FOLDER (build/gpu by default).  Less than four minutes on 16 processors and an H100.
# Needs a toolkit of CUDA, and a python3 with torch and gpytorch.
set -eu
cd "$(dirname "$0")/.."
build=build/gpu
out=${1:-$build}
mkdir -p "$build" "$out"
cmake -B "$build" -S . -DGRAM_TESTS=ON -DGRAM_PYTHON=ON \
    -DPython3_EXECUTABLE="$(command -v python3)" >"$build/configure.log" 2>&1 || { tail -30 "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target run_cases test_cuda_launches test_cuda_graph \
    python_package gram_cuda >"$build/build.log" 2>&1 || { tail -30 "$build/build.log"; exit 1; }
date
export GRAM_PLUGIN_DIR="$PWD/$build" GRAM_CACHE_DIR="$PWD/$build/cache" GRAM_TEST_DEVICE=cuda
for op in kernel_matmul agop median kernel_vjp; do
    timeout 60 "$build/tests/run_cases" $op | tail -3 || echo "FAILED: $op"
done
timeout 60 "$build/tests/test_cuda_launches" || echo "FAILED: launches"
timeout 60 "$build/tests/test_cuda_graph" || echo "FAILED: graphs"
date
export PYTHONPATH="$PWD/$build/python" PYTHONWARNINGS=ignore
timeout 150 python3 bench/compare.py batches gp --device cuda --rounds 3 --peers gpytorch \
    --library "$build/libgram.so" --out "$out/batches.json" || echo "FAILED: batches"
date
