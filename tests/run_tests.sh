#!/bin/sh
# Runs every CTest test of a build folder and ends with the line "N passed, N failed[, N skipped]".
# usage: run_tests.sh BUILD_DIR [ctest options]
# Exit status: 0 only if at least one test passed and none failed.
set -u
build=$1
shift
report=$build/test-report.xml
rm -f "$report"

ctest --test-dir "$build" -j 2 --output-on-failure --no-tests=error \
  --output-junit test-report.xml "$@" 2>&1
ctest_status=$?

# ctest's own summary counts a skipped test as passed, so the count comes from its report. A test
# whose executable is missing is "notrun" there as well, but without the reason of a real skip:
# that one failed. What a skipped test printed says why: GoogleTest puts it below "Skipped", a
# script in its last line.
summary=$(awk '
  /<testcase / { tests++; name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name) }
  /<testcase .* status="run"/ { passed++ }
  /<testcase .* status="disabled"/ { skipped++ }
  /<skipped message="SKIP_/ { skipped++; real = 1; why = ""; fixed = 0 }
  real && /: Skipped$/ { getline; why = $0; fixed = 1 }
  real && !fixed && !/<skipped/ {
    text = $0
    gsub(/<[^>]*>|^[ \t]+/, "", text)
    if (text) why = text
  }
  real && /<\/testcase>/ { print "Skipped " name ": " why; real = 0 }
  END { print passed + 0, tests - passed - skipped, skipped + 0 }' "$report" 2>/dev/null)
counts=$(echo "$summary" | tail -n 1)
# No report: ctest itself broke, which must not read as "nothing failed".
set -- ${counts:-0 1 0}
passed=$1 failed=$2 skipped=$3

echo "$summary" | sed '$d'
line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$ctest_status" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
