#!/bin/sh
# make coverage: which lines and branches of quant, libshard and manifest their own tests, the fuzz
# targets and tests/remote run, as short tests do. Prints a table of folders, and one of the files
# below 90 % of lines.
# usage: coverage.sh [JOBS]   (from the repository root, after `cmake --preset coverage`)
# What the commands of tests/tools, tests/conformance and tests/faults reach is not counted.
set -eu
jobs=${1:-$(nproc)}
build=build/coverage
programs='test-quant test-libshard test-manifest test-fuzz test-remote'
least=90 # percent of lines
profiles=$build/profiles

# shellcheck disable=SC2086  # one word per program
cmake --build "$build" -j "$jobs" --target moepack $programs >&2
rm -rf "$profiles"
mkdir -p "$profiles"
failed=
objects=" -object $build/moepack" # which tests/remote starts
for program in $programs; do
  # All runs of a program add to the same file.
  LLVM_PROFILE_FILE="$profiles/$program-%m.profraw" "$build/tests/$program" --gtest_brief=1 \
    >"$profiles/$program.log" 2>&1 || failed="$failed $program"
  objects="$objects -object $build/tests/$program"
done
llvm-profdata merge -sparse -failure-mode=all "$profiles"/*.profraw -o "$profiles/all.profdata"
# A line for each file: its name, then groups of three columns; lines and branches are the last.
# shellcheck disable=SC2086
llvm-cov report -instr-profile "$profiles/all.profdata" -show-branch-summary $objects \
  -ignore-filename-regex '/(tests|fixtures|tools|runtime-shim|build)/' \
  >"$profiles/report" 2>"$profiles/report.log"

awk -v least=$least -v root="$PWD/" '
  function percent(all, missed) {
    return all == 0 ? "-" : sprintf("%.1f", 100 * (all - missed) / all)
  }
  function row(name, l, lm, b, bm) {
    return sprintf("| %s | %d | %s | %d | %s |", name, l, percent(l, lm), b, percent(b, bm))
  }
  $1 !~ /\.(cc|h)$/ { next }
  {
    name = $1
    sub(root, "", name)
    if (name !~ /^(quant|libshard|manifest)\//) next
    lines = $(NF - 5); lines_missed = $(NF - 4); branches = $(NF - 2); branches_missed = $(NF - 1)
    parts = split(name, part, "/")
    folder = parts > 2 ? part[1] "/" part[2] : part[1]
    for (i = 1; i <= 2; ++i) {
      key = i == 1 ? folder : part[1] " (all)"
      l[key] += lines; lm[key] += lines_missed; b[key] += branches; bm[key] += branches_missed
    }
    if (lines > 0 && 100 * (lines - lines_missed) < least * lines)
      low[name] = row(name, lines, lines_missed, branches, branches_missed)
  }
  END {
    sorter = "sort"
    columns = " | lines | % run | branches | % taken |\n|---|---|---|---|---|"
    print "| folder" columns
    fflush()
    for (key in l) print row(key, l[key], lm[key], b[key], bm[key]) | sorter
    close(sorter)
    print "\n| file below " least " % of lines" columns
    fflush()
    for (name in low) print low[name] | sorter
    close(sorter)
  }' "$profiles/report"
if [ -n "$failed" ]; then
  echo "coverage: tests failed:$failed ($profiles/*.log)" >&2
  exit 1
fi
