#!/bin/sh
# make coverage: which lines and branches of quant, libshard and manifest their own tests, the fuzz
# targets and tests/remote run, as short tests do. Prints a table of folders, one of the files below
# 90 % of lines, and how many of the branches that were not taken only pass an error on.
# usage: coverage.sh [JOBS]   (from the repository root, after `cmake --preset coverage`)
# What the built program reaches is not counted: tests/tools, tests/conformance, tests/faults and
# some tests of tests/remote start it.
set -eu
jobs=${1:-$(nproc)}
build=build/coverage
programs='test-quant test-libshard test-manifest test-fuzz test-remote'
least=90 # percent of lines
profiles=$build/profiles
ignored='^/usr/|/(tests|fixtures|tools|runtime-shim|build)/'

# shellcheck disable=SC2086  # one word per program
cmake --build "$build" -j "$jobs" --target moepack $programs >&2
rm -rf "$profiles"
mkdir -p "$profiles"
failed=
objects=
for program in $programs; do
  # All runs of a program add to the same file.
  LLVM_PROFILE_FILE="$profiles/$program-%m.profraw" "$build/tests/$program" --gtest_brief=1 \
    >"$profiles/$program.log" 2>&1 || failed="$failed $program"
  objects="$objects -object $build/tests/$program"
done
llvm-profdata merge -sparse -failure-mode=all "$profiles"/*.profraw -o "$profiles/all.profdata"
# A line for each file: its name, without the folders that all files have in common, then groups of
# three columns; lines and branches are the last.
# shellcheck disable=SC2086
llvm-cov report -instr-profile "$profiles/all.profdata" -show-branch-summary $objects \
  -ignore-filename-regex "$ignored" \
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
    if (index("/" name, root) == 1) name = substr("/" name, length(root) + 1)
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
# A record BRDA:LINE,BLOCK,BRANCH,COUNT for each branch, after the SF: of its file.
# shellcheck disable=SC2086
llvm-cov export -format=lcov -instr-profile "$profiles/all.profdata" $objects \
  -ignore-filename-regex "$ignored" 2>>"$profiles/report.log" |
  awk -F '[:,]' -v root="$PWD/" '
    /^SF:/ {
      file = substr($0, 4)
      ours = index(file, root) == 1
      split("", passes_on)
      for (line = 1; ours && (getline text < file) > 0; ++line)
        if (text ~ /SHARD_(TRY|CHECK)/) passes_on[line]
      close(file)
    }
    /^BRDA:/ && ours && $5 + 0 == 0 { ++missed; if ($2 in passes_on) ++errors }
    END {
      printf "\n%d branches were not taken; %d of them pass an error on (SHARD_TRY, SHARD_CHECK)\n",
        missed, errors
    }'
if [ -n "$failed" ]; then
  echo "coverage: tests failed:$failed ($profiles/*.log)" >&2
  exit 1
fi
