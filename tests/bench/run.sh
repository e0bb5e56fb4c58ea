#!/bin/sh
# make bench: writes docs/benchmarks.md on a machine with AVX-512, and docs/benchmarks-avx2.md on
# others. Scratch files go to $MOEPACK_BENCH_DIR (default build/bench) and are deleted afterwards.
# MOEPACK_BENCH_QUICK=1 tries everything with small sizes and leaves the pages unchanged.
# usage: run.sh BUILD_DIR   (from the repository root)
set -eu
build=$1
results=build/bench
scratch=${MOEPACK_BENCH_DIR:-$results}
mkdir -p "$results" "$scratch"

markdown=docs/benchmarks.md
grep -qw avx512f /proc/cpuinfo || markdown=docs/benchmarks-avx2.md
quick=
if [ "${MOEPACK_BENCH_QUICK:-0}" = 1 ]; then
  markdown=$results/$(basename $markdown)
  quick=--quick
fi
tests/peer/install.sh || [ $? = 77 ]  # ggml, for comparison
rm -f "$results/quant.json" "$results/instructions.json"
"$build/tests/bench/bench-quant" $quick --benchmark_out="$results/quant.json" \
  --benchmark_out_format=json
"$build/tests/bench/bench-instructions" "$results/instructions.json" "$scratch"
"$build/tests/bench/bench-micro" --benchmark_out="$results/micro.json" --benchmark_out_format=json
"$build/tests/bench/bench-whole" --moepack "$build/moepack" \
  --make-fixtures "$build/fixtures/make-fixtures" --scratch "$scratch" \
  --micro "$results/micro.json" --quant "$results/quant.json" \
  --instructions "$results/instructions.json" \
  --markdown "$markdown" --json "$results/benchmarks.json" $quick
echo "written: $markdown, $results/benchmarks.json"
