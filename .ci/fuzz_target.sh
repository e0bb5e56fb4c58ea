#!/bin/sh
# Runs one libFuzzer program of fuzz.sh, and prints its row of the table.
# usage: fuzz_target.sh BUILD_DIR SECONDS TARGET   (from the repository root)
# libFuzzer writes what covers more to the first folder only; the fixtures are read.
set -eu
build=$1
seconds=$2
target=$3
log=$build/logs/$target.log
corpus=build/fuzz-corpus/$target
mkdir -p "$corpus"
findings=0
start=$(date +%s)
# Inputs keep their length from the start (len_control), as a document that is cut is soon refused.
"$build/tests/fuzz/fuzz-$target" "$corpus" fixtures/fuzz fixtures/bad \
  -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -max_len=16384 -len_control=0 \
  -print_final_stats=1 -artifact_prefix="build/fuzz-found/$target-" >"$log" 2>&1 || findings=1
wall=$(($(date +%s) - start))
executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
printf '| %s | %d | %d | %d | %d |\n' "$target" "${executions:-0}" $wall "${rate:-0}" $findings |
  tee "$build/logs/$target.row"
if [ $findings -ne 0 ]; then
  tail -n 30 "$log" >&2
  exit 1
fi
