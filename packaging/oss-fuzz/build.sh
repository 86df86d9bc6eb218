#!/bin/bash
# build.sh - what OSS-Fuzz runs: every target, its corpus and the libraries that it needs
#
# GRAM_FUZZ sets the sanitizers itself; with the flags of OSS-Fuzz besides, they would come twice.
set -euo pipefail
unset CFLAGS CXXFLAGS
build=${WORK:-/tmp}/libgram
targets=$(scripts/files 'tests/fuzz/fuzz_*.c' | sed -E '/replay/d; s/.*\/(.*)\.c/\1/' | xargs)
cmake -S . -B "$build" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DGRAM_FUZZ=ON \
    -DGRAM_CUDA=OFF -DGRAM_MPI=OFF
# shellcheck disable=SC2086 # words
cmake --build "$build" --parallel "$(nproc)" --target $targets
mkdir -p "$OUT/lib"
for target in $targets; do
    program=$(find "$build" -type f -name "$target" -perm -u+x | head -n 1)
    cp "$program" "$OUT/"
    ldd "$program" | sed -n 's/.*=> \(.*\(openblas\|gfortran\|quadmath\)[^ ]*\).*/\1/p' |
        xargs -r cp -L -t "$OUT/lib"
    patchelf --set-rpath '$ORIGIN/lib' "$OUT/$target"
    if [ -d "tests/corpus/$target" ]; then
        (cd "tests/corpus/$target" && zip -qr "$OUT/${target}_seed_corpus.zip" .)
    fi
done
