#!/bin/sh
# Runs the CTest tests of a build folder and ends with the line "N passed, N failed[, N skipped]".
# usage: run_tests.sh BUILD_DIR [ctest options]
# Exit status: 0 only if at least one test passed and none failed.
set -u
build=$1
shift
report=$build/test-report.xml
suites=$build/test-reports # tests/add_suites.cmake
rm -rf "$report" "$suites"

# An expression that CTest cannot read (one with ten parentheses, say) matches nothing, and says so
# only here.
if ctest --test-dir "$build" -N "$@" 2>&1 | grep '^RegularExpression' >&2; then
  echo "0 passed, 1 failed"
  exit 1
fi

# One more test than there are cores at a time, because many wait for a server.
ctest --test-dir "$build" -j $(($(nproc) + 1)) --output-on-failure --no-tests=error \
  --output-junit test-report.xml "$@" 2>&1
ctest_status=$?

# CTest runs a suite of GoogleTest as one test; its cases are counted from the report of the suite.
# A suite that failed although no case did (it crashed, or its program is missing) counts as one
# failure. CTest's own summary counts skipped tests as passed, so the other tests are counted from
# its report, where a missing program is "notrun" too, but without the reason of a real skip. The
# reason why a script was skipped is the last line that it printed.
set -- "$suites"/*.xml
[ -e "$1" ] || set --
summary=$(awk '
  function text_of(message) {
    gsub(/&quot;/, "\"", message)
    gsub(/&apos;/, "\047", message)
    gsub(/&lt;/, "<", message)
    gsub(/&gt;/, ">", message)
    gsub(/&amp;/, "\\&", message)
    return message
  }
  function attribute(name) {
    if (!match($0, " " name "=\"[^\"]*\"")) return ""
    return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
  }

  FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.xml$/, "", file); of_suite = NR != 1 }

  !of_suite && /<testcase / {
    name = attribute("name")
    is_suite = name ~ /\.\*$/
    if (is_suite) {
      id = name
      gsub(/[^A-Za-z0-9_]/, "_", id)
      prefix[id] = name
      sub(/\/.*/, "/", prefix[id])
      broken[id] = attribute("status") != "run"
      next
    }
    tests++
    if (attribute("status") == "run") passed++
    if (attribute("status") == "disabled") skipped++
  }
  !of_suite && !is_suite && /<skipped message="SKIP_/ { skipped++; real = 1; why = ""; next }
  real {
    text = $0
    gsub(/<[^>]*>|^[ \t]+/, "", text)
    if (text) why = text
  }
  real && /<\/testcase>/ { print "Skipped " name ": " text_of(why); real = 0 }

  of_suite && /<testcase / {
    tests++
    name = prefix[file] attribute("classname") "." attribute("name")
    failed_before = 0
    if (attribute("status") == "notrun" || attribute("result") == "skipped") skipped++
    else passed++
  }
  of_suite && /<skipped message=/ {
    why = attribute("message")
    sub(/^[^&]*&#x0A;/, "", why)
    sub(/&#x0A;.*/, "", why)
    print "Skipped " name ": " text_of(why)
  }
  of_suite && /<failure / && !failed_before { passed--; failed_before = 1; broken[file] = 0 }

  END {
    for (id in broken) tests += broken[id]
    print passed + 0, tests - passed - skipped, skipped + 0
  }' "$report" "$@" 2>/dev/null)
counts=$(echo "$summary" | tail -n 1)
# No report: ctest itself failed, which must not look like "nothing failed".
set -- ${counts:-0 1 0}
passed=$1 failed=$2 skipped=$3

echo "$summary" | sed '$d'
line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$ctest_status" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
