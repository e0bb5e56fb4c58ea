#!/bin/sh
# make fuzz: every target of tests/fuzz as a libFuzzer program, each for some seconds, and a table
# of what was executed. The programs stay in build/fuzz.
# usage: fuzz.sh SECONDS [target ...]   (from the repository root; default: every target)
# MOEPACK_FUZZ_SANITIZE: address,undefined (the default); "" counts faster and finds less.
# Exit status: 0 if no target found anything. What one found lies in build/fuzz-found.
set -eu
seconds=$1
shift
sanitize=${MOEPACK_FUZZ_SANITIZE-address,undefined}
build=build/fuzz${sanitize:+-$(echo "$sanitize" | tr ',' '-')}
cmake -S . -B "$build" -G Ninja -DMOEPACK_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_C_COMPILER=clang -DMOEPACK_SANITIZE="${sanitize:+$sanitize,}fuzzer-no-link" \
  -DMOEPACK_BENCH=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE='-O1 -g1' >/dev/null
targets=${*:-$(ls tests/fuzz/*/*_test.cc | sed 's,.*/,,; s,_test.cc,,' | tr '_' '-')}
programs=
for target in $targets; do programs="$programs fuzz-$target"; done
# shellcheck disable=SC2086  # one word per program
cmake --build "$build" -j "${MOEPACK_FUZZ_JOBS:-$(nproc)}" --target $programs >&2

mkdir -p build/fuzz-found
failed=0
total=0
printf '| target | executions | seconds | executions/s | findings |\n|---|---|---|---|---|\n'
for target in $targets; do
  log=$(mktemp)
  findings=0
  "$build/tests/fuzz/fuzz-$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="build/fuzz-found/$target-" >"$log" 2>&1 || findings=1
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  printf '| %s | %s | %s | %s | %s |\n' "$target" "${executions:-?}" "$seconds" "${rate:-?}" \
    "$findings"
  total=$((total + ${executions:-0}))
  if [ $findings -ne 0 ]; then
    failed=1
    tail -n 30 "$log" >&2
  fi
  rm -f "$log"
done
printf '| all | %s | | | %s |\n' "$total" "$([ $failed -eq 0 ] && echo 0 || echo some)"
exit $failed
