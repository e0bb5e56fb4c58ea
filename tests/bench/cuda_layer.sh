#!/bin/sh
# One layer in the shape of Qwen3-30B-A3B (128 experts, F 768, H 2,048, eight of 128 per token,
# random weights), refitted for a node of 64 experts on 16,384 tokens: on a GPU, and on the CPU to
# compare with. For a machine with a GPU and the CUDA toolkit (nvcc 12, cuBLAS, cuSOLVER); by hand.
#
#   1. builds moepack, make-fixtures and bench-refit, with CUDA
#   2. bench-refit: seconds and held-out error of each step of the refit; the errors must differ by
#      at most 1 %
#   3. the program itself on such a checkpoint of one layer: a refit on either, and a calibration,
#      which always runs on the CPU
#
# usage: cuda_layer.sh [SIZE [EXECUTOR [BUILD]]]   (from the repository root)
#   SIZE      full (default), tiny to try the script, or build to do nothing else
#   EXECUTOR  cuda (default); cpu or vulkan needs no CUDA, and tries the script
#   BUILD     a build that has the three programs already; default: one is made in build/cuda-layer
# Scratch files go to $TMPDIR; the status is 1 where errors differ.
set -eu
size=${1:-full}
executor=${2:-cuda}
build=${3:-}
case $size in
  full) hidden=2048 width=768 experts=128 kept=64 top_k=8 tokens=16384 updates=300 sessions=32
        vocabulary=8192 head=128 least=600 ;;
  tiny) hidden=64 width=64 experts=8 kept=4 top_k=2 tokens=1024 updates=5 sessions=16
        vocabulary=96 head=16 least=50 ;;
  build) ;;
  *) echo "cuda_layer.sh: SIZE: expected full, tiny or build, found $size" >&2; exit 2 ;;
esac
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cuda-layer.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

if [ -z "$build" ]; then
  build=build/cuda-layer with_cuda=OFF
  [ "$executor" != cuda ] || with_cuda=ON
  # Kernels take minutes to compile for each architecture.
  cmake --preset release -B $build -DMOEPACK_CUDA=$with_cuda -DCMAKE_CUDA_ARCHITECTURES=native \
    -DMOEPACK_TESTS=OFF -DMOEPACK_BENCH=ON >"$scratch/configure.txt" 2>&1 ||
    { cat "$scratch/configure.txt" >&2; exit 1; }
  cmake --build $build -j"$(nproc)" --target moepack make-fixtures bench-refit \
    >"$scratch/build.txt" 2>&1 || { tail -n 50 "$scratch/build.txt" >&2; exit 1; }
fi
[ "$size" != build ] || exit 0
moepack=$build/moepack

# Seconds of a command, whose output goes to files.
seconds_of() {
  name=$1
  shift
  begin=$(date +%s.%N)
  "$@" >"$scratch/$name.out" 2>"$scratch/$name.err" ||
    { cat "$scratch/$name.out" "$scratch/$name.err" >&2; exit 1; }
  date +%s.%N | awk -v begin="$begin" '{ printf "%.1f\n", $1 - begin }'
}

# Compares the numbers behind a word in two files, line by line.
compare() {
  awk -v word="$1" '
    { for (i = 1; i < NF; ++i) if ($i == word) { value = $(i + 1) + 0
        if (FNR == NR) first[++a] = value; else second[++b] = value } }
    END {
      for (i = 1; i <= a; ++i) {
        size = second[i] < 0 ? -second[i] : second[i]
        off = first[i] - second[i]; if (off < 0) off = -off
        if (off > 0.01 * size) { printf "error %d: %g, on the CPU %g\n", i, first[i], second[i]
          bad = 1 }
      }
      if (a == 0 || a != b) { print "errors are missing"; bad = 1 }
      exit bad
    }' "$2" "$3"
}

status=0
steps=ridge,refill,tune,ridge
for on in "$executor" cpu; do
  "$build/tests/bench/bench-refit" $hidden $width $experts $kept $top_k $tokens $updates \
    "$on" $steps >"$scratch/steps-$on.txt"
  cat "$scratch/steps-$on.txt"
done
compare error "$scratch/steps-$executor.txt" "$scratch/steps-cpu.txt" &&
  echo "steps: errors on $executor and cpu differ by at most 1 %" || status=1

"$build/fixtures/make-fixtures" qwen3-moe "$scratch/model" --layers 1 --experts $experts \
  --top-k $top_k --hidden $hidden --ff $width --vocabulary $vocabulary --head-size $head --seed 1
awk -v sessions=$sessions -v tokens=$tokens -v words=$vocabulary 'BEGIN {
  srand(1)
  for (s = 0; s < sessions; ++s) {
    line = "{\"tokens\": ["
    for (i = 0; i < tokens / sessions; ++i) line = line (i ? "," : "") int(rand() * words)
    print line "]}"
  }
}' >"$scratch/text.jsonl"
"$moepack" plan "$scratch/model" --groups 2 -o "$scratch/plan.json" --quiet >/dev/null
for on in "$executor" cpu; do
  rm -rf "$scratch/store"
  seconds=$(seconds_of refit "$moepack" refit "$scratch/model" --plan "$scratch/plan.json" \
    --text "$scratch/text.jsonl" --only group:0 --updates $updates --least-tokens $least \
    --store "$scratch/store" --executor "$on" --json)
  tr ',{}' '\n\n\n' <"$scratch/refit.out" | tr -d '"' | grep -E '^ *error_(before|after):' \
    >"$scratch/errors-$on.txt"
  echo "refit on $on: $seconds s," $(cat "$scratch/errors-$on.txt")
done
compare error_after: "$scratch/errors-$executor.txt" "$scratch/errors-cpu.txt" &&
  echo "refit: errors on $executor and cpu differ by at most 1 %" || status=1

seconds=$(seconds_of calibrate "$moepack" quantize "$scratch/model" --recipe Q4_K_M \
  --calibrate "$scratch/text.jsonl" -o "$scratch/calibrated.gguf")
echo "calibration on cpu: $seconds s"
tail -n 1 "$scratch/calibrate.out"
exit $status
