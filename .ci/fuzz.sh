#!/bin/sh
# make fuzz: every target of tests/fuzz as a libFuzzer program, each for some seconds, and a table
# of what was executed. Programs and corpora stay in build/fuzz* and build/fuzz-corpus, so that the
# next run starts from what this one reached.
# usage: fuzz.sh SECONDS [target ...]   (from the repository root; default: every target)
# MOEPACK_FUZZ_SANITIZE: address,undefined (the default); "" counts faster and finds less.
# MOEPACK_FUZZ_JOBS: how many compile, and then run, at a time (one for each processor).
# Exit status: 0 if no target found anything. What one found lies in build/fuzz-found.
set -eu
seconds=$1
shift
sanitize=${MOEPACK_FUZZ_SANITIZE-address,undefined}
jobs=${MOEPACK_FUZZ_JOBS:-$(nproc)}
build=build/fuzz${sanitize:+-$(echo "$sanitize" | tr ',' '-')}
# Release has no assertions, and CMakeLists.txt sets its flags.
cmake -S . -B "$build" -G Ninja -DMOEPACK_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_C_COMPILER=clang -DMOEPACK_SANITIZE="${sanitize:+$sanitize,}fuzzer-no-link" \
  -DCMAKE_BUILD_TYPE="$([ -n "$sanitize" ] && echo Fuzz || echo Release)" \
  -DCMAKE_CXX_FLAGS_FUZZ='-O1 -g1' >/dev/null
targets=${*:-$(ls tests/fuzz/*/*_test.cc | sed 's,.*/,,; s,_test.cc,,' | tr '_' '-')}
programs=
for target in $targets; do programs="$programs fuzz-$target"; done
# shellcheck disable=SC2086  # one word per program
cmake --build "$build" -j "$jobs" --target $programs >&2

logs=$build/logs
rm -rf "$logs"
mkdir -p build/fuzz-found "$logs"
printf '| target | executions | seconds | executions/s | findings |\n|---|---|---|---|---|\n'
status=0
# shellcheck disable=SC2086
printf '%s\n' $targets | xargs -n 1 -P "$jobs" .ci/fuzz_target.sh "$build" "$seconds" || status=1
awk -F '|' 'FNR == 1 { executions += $3; seconds += $4; findings += $6 }
            END { printf "| all | %d | %d | | %d |\n", executions, seconds, findings }' \
  "$logs"/*.row
exit $status
