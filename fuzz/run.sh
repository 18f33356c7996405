#!/usr/bin/env bash
# Builds the fuzzers (build-fuzz/) and runs one or both for some minutes, one core, low priority.
#   fuzz/run.sh MINUTES [ptx|files]      (FLAMIA_FUZZ_NO_BUILD=1: as built)
# Inputs that were found interesting stay in build-fuzz/corpus-*; findings are written to
# build-fuzz/findings/. A finding becomes a test in test/Sim/Fuzz.
set -euo pipefail
minutes=${1:?usage: fuzz/run.sh MINUTES [ptx|files]}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FLAMIA_FUZZ_DIR:-$root/build-fuzz}
jobs=${FLAMIA_JOBS:-$(nproc)}
if [[ ! -f $build/build.ninja ]]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
    -DLLVM_DIR=/usr/lib/llvm-22/lib/cmake/llvm -DFLAMIA_BUILD_COMPILER=OFF \
    -DFLAMIA_BUILD_TESTS=OFF -DFLAMIA_FUZZ=ON -DFLAMIA_SANITIZERS=address,undefined
fi
[[ -n ${FLAMIA_FUZZ_NO_BUILD-} ]] ||
  nice -n 19 ninja -C "$build" -j "$jobs" flamia-fuzz-ptx flamia-fuzz-files
/usr/bin/python3 "$root/fuzz/make-corpus.py" "$build/seeds"
mkdir -p "$build/findings"
# The longest seed has 8 KiB.
for target in ${2:-ptx files}; do
  mkdir -p "$build/corpus-$target"
  nice -n 19 "$build/bin/flamia-fuzz-$target" -max_total_time=$((minutes * 60)) \
    -fork=1 -ignore_crashes=1 -ignore_ooms=1 -ignore_timeouts=1 -max_len=12288 -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -dict="$root/fuzz/$target.dict" -artifact_prefix="$build/findings/$target-" \
    "$build/corpus-$target" "$build/seeds/$target"
done
