#!/bin/sh
# One layer in the shape of Qwen3-30B-A3B (128 experts, F 768, H 2,048, eight of 128 per token,
# random weights), refitted for a node of 64 experts on 16,384 tokens: on a GPU, and on the CPU to
# compare with. For a machine with a GPU, cuBLAS and cuSOLVER; by hand. What is worth most comes
# first, and every line is printed when it is known:
#
#   1. a small layer on both, which takes seconds; where that goes wrong, nothing else is run. Then
#      on the GPU under compute-sanitizer, if it is installed, for a minute at most
#   2. bench-refit on the GPU: seconds and held-out error of each step of a refit
#   3. the same with fewer updates of tune on both; the errors must differ by at most 1 %
#   4. the program itself on such a checkpoint of one layer: a refit and a calibration on both; the
#      errors of the refits must differ by at most 1 %, what the calibrations save by 2 %
#
# usage: cuda_layer.sh [SIZE [EXECUTOR [BUILD [SECONDS]]]]   (from the repository root)
#   SIZE      full (default), tiny to try the script, or build to do nothing else
#   EXECUTOR  cuda (default); cpu or vulkan needs no CUDA, and tries the script
#   BUILD     where the programs are; default: they are built in build/cuda-layer, with nvcc 12, for
#             the GPU that is there, and for an H100 or H200 where there is none
#   SECONDS   default 540, after the build: what still runs then is ended, and the rest left out
#
# A machine that is lent for minutes need not build: `build` puts the shared libraries of the
# programs beside them, and another machine needs only BUILD/moepack, BUILD/lib,
# BUILD/fixtures/make-fixtures and BUILD/tests/bench/bench-refit. Scratch files go to $TMPDIR; the
# status is 1 where errors differ, or something failed or was left out.
set -eu
size=${1:-full}
executor=${2:-cuda}
build=${3:-build/cuda-layer}
limit=${4:-540}
case $size in
  full | tiny | build) ;;
  *) echo "cuda_layer.sh: SIZE: expected full, tiny or build, found $size" >&2; exit 2 ;;
esac
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cuda-layer.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
programs="moepack fixtures/make-fixtures tests/bench/bench-refit"

make_programs() {
  with_cuda=OFF architectures=90
  [ "$executor" != cuda ] || with_cuda=ON
  [ ! -e /dev/nvidiactl ] || architectures=native  # each takes minutes to compile for
  cmake --preset release -B "$build" -DMOEPACK_CUDA=$with_cuda \
    -DCMAKE_CUDA_ARCHITECTURES=$architectures -DMOEPACK_TESTS=OFF -DMOEPACK_BENCH=ON \
    >"$scratch/configure.txt" 2>&1 || { cat "$scratch/configure.txt" >&2; exit 1; }
  cmake --build "$build" -j"$(nproc)" --target moepack make-fixtures bench-refit \
    >"$scratch/build.txt" 2>&1 || { tail -n 50 "$scratch/build.txt" >&2; exit 1; }
  mkdir -p "$build/lib"
  for program in $programs; do ldd "$build/$program"; done |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' |
    xargs -r cp -L -t "$build/lib"
}

[ -n "${3:-}" ] || make_programs
[ "$size" != build ] || { ls -l "$build/lib" && cd "$build" && exec ls -l $programs; }
libraries=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
started=$(date +%s)
status=0

shape() {
  case $1 in
    full) hidden=2048 width=768 experts=128 kept=64 top_k=8 tokens=16384 sessions=32 all=200 some=60
          vocabulary=8192 head=128 least=600 ;;
    tiny) hidden=64 width=64 experts=8 kept=4 top_k=2 tokens=1024 sessions=16 all=10 some=5
          vocabulary=96 head=16 least=50 ;;
  esac
}

# Runs a command, whose output goes to files, and sets `took`. False if it fails or no time is left.
run() {
  name=$1
  shift
  left=$((limit + started - $(date +%s)))
  [ $left -gt 0 ] || { echo "$name: left out, the time is over"; status=1; return 1; }
  begin=$(date +%s.%N) result=0
  LD_LIBRARY_PATH=$libraries timeout $left "$@" >"$scratch/$name.out" 2>"$scratch/$name.err" ||
    result=$?
  took=$(date +%s.%N | awk -v begin="$begin" '{ printf "%.1f", $1 - begin }')
  [ $result != 0 ] || return 0
  cat "$scratch/$name.out" "$scratch/$name.err"
  echo "$name: status $result after $took s"
  status=1
  return 1
}

# Something of the GPU's work was done elsewhere.
check_device() {
  ! grep -E 'without dense algebra|slow (refit|calibration)|too little' "$scratch/$1.out" \
    "$scratch/$1.err" ||
    status=1
}

# steps NAME EXECUTOR UPDATES
steps() {
  run "$1" "$build/tests/bench/bench-refit" $hidden $width $experts $kept $top_k $tokens "$3" \
    "$2" ridge,refill,tune,ridge || return 1
  echo "$1: $took s"
  cat "$scratch/$1.out"
  check_device "$1"
}

# Compares the numbers behind a word in two files, line by line. They may differ by PERCENT.
# compare WORD FILE FILE PERCENT
compare() {
  awk -v word="$1" -v percent="$4" '
    { for (i = 1; i < NF; ++i) if ($i == word) { value = $(i + 1) + 0
        if (FNR == NR) first[++a] = value; else second[++b] = value } }
    END {
      for (i = 1; i <= a; ++i) {
        size = second[i] < 0 ? -second[i] : second[i]
        off = first[i] - second[i]; if (off < 0) off = -off
        if (off > percent / 100 * size) {
          printf "error %d: %g, on the CPU %g\n", i, first[i], second[i]
          bad = 1
        }
      }
      if (a == 0 || a != b) { print "errors are missing"; bad = 1 }
      if (!bad) printf "errors differ by at most %g %%\n", percent
      exit bad
    }' "$2" "$3" || { status=1; return 1; }
}

steps_on_both() {
  steps "$1-$executor" "$executor" $some && steps "$1-cpu" cpu $some &&
    compare error "$scratch/$1-$executor.out" "$scratch/$1-cpu.out" 1
}

make_model() {
  run make-model "$build/fixtures/make-fixtures" qwen3-moe "$scratch/model" --layers 1 \
    --experts $experts --top-k $top_k --hidden $hidden --ff $width --vocabulary $vocabulary \
    --head-size $head --seed 1 || return 1
  echo "make-model: $took s"
  awk -v sessions=$sessions -v tokens=$tokens -v words=$vocabulary 'BEGIN {
    srand(1)
    for (s = 0; s < sessions; ++s) {
      line = "{\"tokens\": ["
      for (i = 0; i < tokens / sessions; ++i) line = line (i ? "," : "") int(rand() * words)
      print line "]}"
    }
  }' >"$scratch/text.jsonl"
  run plan "$build/moepack" plan "$scratch/model" --groups 2 -o "$scratch/plan.json"
}

refit_on() {
  run "refit-$1" "$build/moepack" refit "$scratch/model" --plan "$scratch/plan.json" \
    --text "$scratch/text.jsonl" --only group:0 --updates $some --least-tokens $least \
    --store "$scratch/store-$1" --executor "$1" --json || return 1
  echo "refit-$1: $took s; $(grep '^layer ' "$scratch/refit-$1.err")"
  check_device "refit-$1"
  tr ',{}' '\n\n\n' <"$scratch/refit-$1.out" | tr -d '"' | grep -E '^ *error_(before|after):' \
    >"$scratch/errors-$1.txt" || { echo "refit-$1: its result has no errors"; return 1; }
}

refit_on_both() {
  refit_on "$executor" && { [ "$executor" = cpu ] || refit_on cpu; } &&
    compare error_after: "$scratch/errors-$executor.txt" "$scratch/errors-cpu.txt" 1
}

calibrate_on() {
  run "calibrate-$1" "$build/moepack" quantize "$scratch/model" --recipe Q4_K_M \
    --calibrate "$scratch/text.jsonl" --executor "$1" --calibrated-store "$scratch/calibrated-$1" \
    -o "$scratch/calibrated-$1.gguf" || return 1
  echo "calibrate-$1: $took s; $(tail -n 1 "$scratch/calibrate-$1.out")"
  check_device "calibrate-$1"
  # What feedback saved of the error, whose parts may cancel each other.
  tr ',{}' '\n\n\n' <"$scratch/calibrated-$1/calibration.json" | tr -d '"' |
    awk '$1 == "error_plain:" { plain = $2 }
      $1 == "error:" && plain > 0 { print "saved:", (plain - $2) / plain }' \
      >"$scratch/calibrated-$1.txt"
}

calibrate_on_both() {
  calibrate_on "$executor" && { [ "$executor" = cpu ] || calibrate_on cpu; } &&
    compare saved: "$scratch/calibrated-$executor.txt" "$scratch/calibrated-cpu.txt" 2
}

sanitize() {
  [ "$executor" = cuda ] || return 0
  command -v compute-sanitizer >/dev/null ||
    { echo "compute-sanitizer: left out, it is not installed"; return 0; }
  result=0
  LD_LIBRARY_PATH=$libraries timeout 60 compute-sanitizer --error-exitcode 1 \
    "$build/tests/bench/bench-refit" $hidden $width $experts $kept $top_k $tokens 2 cuda \
    ridge,refill,tune >"$scratch/sanitize.out" 2>&1 || result=$?
  tail -n 1 "$scratch/sanitize.out"
  [ $result != 124 ] || { echo "compute-sanitizer: ended after a minute"; return 0; }
  [ $result = 0 ] || { head -n 60 "$scratch/sanitize.out"; status=1; }
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>"$scratch/none" ||
  echo "no nvidia-smi"
echo "$(nproc) processors"
shape tiny
steps_on_both small || { echo "the small layer went wrong, so nothing else is run"; exit 1; }
[ $status = 0 ] || exit 1
sanitize
shape "$size"
# What fails does not keep the rest from running, but it is in the status.
steps layer "$executor" $all || status=1
steps_on_both compared || status=1
if make_model; then
  refit_on_both || status=1
  calibrate_on_both || status=1
else
  echo "without a model: refits and calibration are left out"
  status=1
fi
echo "$(($(date +%s) - started)) s in all"
exit $status
