#!/bin/sh
# make soak: the long forms of the tests that `make test` runs in short. docs/reliability.md says
# what each row means, and has the last table.
# usage: soak.sh BUILD_DIR [row ...]   (from the repository root; default: every row)
# MOEPACK_SOAK=all: every allocation is refused once, not 200 of each command: many hours.
# MOEPACK_FUZZ_SECONDS: of each fuzz target (60).
set -eu
build=$1
shift
rows='faults full-disk dead-device interrupts kills registry-kills power allocations'
rows="$rows every-allocation locks verify-resume limits"
rows="$rows trillion refit-gate neon peers sanitizers races clang fresh-root arm64 two-builds fuzz"
wanted=${*:-$rows}
export MOEPACK_SOAK=${MOEPACK_SOAK:-1}
failed=
printf '| row | tests | skipped | points | failed | seconds |\n|---|---|---|---|---|---|\n'

# usage: row NAME PROGRAM FILTER
row() {
  case " $wanted " in *" $1 "*) ;; *) return 0 ;; esac
  report=$(mktemp)
  log=build/soak-$1.log
  start=$(date +%s)
  "$build/tests/$2" --gtest_filter="$3" --gtest_output="xml:$report" >"$log" 2>&1 || true
  seconds=$(($(date +%s) - start))
  awk -v row="$1" -v seconds=$seconds '
    /<testsuites / {
      match($0, / tests="[0-9]+"/); tests = substr($0, RSTART + 8, RLENGTH - 9)
      match($0, / failures="[0-9]+"/); failures = substr($0, RSTART + 11, RLENGTH - 12)
    }
    /<testcase .* result="skipped"/ { ++skipped }
    /<property name="points"/ { match($0, /value="[0-9]+"/)
      points += substr($0, RSTART + 7, RLENGTH - 8) }
    END {
      if (tests == "") failures = "crashed"
      else if (tests == skipped + 0) failures = "nothing ran"
      printf "| %s | %d | %d | %d | %s | %d |\n", row, tests - skipped, skipped, points, failures,
        seconds
      exit failures != 0
    }' "$report" || failed="$failed $1"
  rm -f "$report"
}

# usage: suites NAME COMMAND...   (its output has lines "N passed, N failed[, N skipped]")
suites() {
  case " $wanted " in *" $1 "*) ;; *) return 0 ;; esac
  name=$1 start=$(date +%s)
  shift
  "$@" >"build/soak-$name.log" 2>&1 || failed="$failed $name"
  awk -v row="$name" -v seconds=$(($(date +%s) - start)) '
    /^[0-9]+ passed, [0-9]+ failed/ { tests += $1 + $3; failures += $3; skipped += $5 }
    END {
      if (tests == "") failures = "crashed"  # nothing was built, or nothing ran
      printf "| %s | %d | %d | 0 | %s | %d |\n", row, tests, skipped, failures, seconds
    }' \
    "build/soak-$name.log"
}

# usage: script NAME FILE   (77: it could not run here)
script() {
  case " $wanted " in *" $1 "*) ;; *) return 0 ;; esac
  start=$(date +%s)
  status=0
  "$2" "$PWD" "$PWD/$build" >"build/soak-$1.log" 2>&1 || status=$?
  count=1 skipped=0 result=0
  case $status in
    0) ;;
    77) count=0 skipped=1 result="skipped: $(tail -n 1 "build/soak-$1.log")" ;;
    *) result=1 failed="$failed $1" ;;
  esac
  printf '| %s | %s | %s | 0 | %s | %d |\n' "$1" $count $skipped "$result" $(($(date +%s) - start))
}

row faults test-faults '*FileFaults.ACall*'
row full-disk test-faults '*FileFaults.ADisk*'
row dead-device test-faults '*FileFaults.ADevice*'
row interrupts test-faults '*FileFaults.Interrupted*'
row kills test-faults '*KilledCommands*'
row registry-kills test-remote '*KilledRegistryRuns*'
row power test-faults '*PowerCut*'
row allocations test-faults '*AllocationFaults*'
row every-allocation test-faults 'EveryAllocation.*'
row locks test-faults 'Locks.*'
row verify-resume test-faults 'ResumedVerification.*'
row limits test-faults '*Limits*'
row trillion test-tools 'Trillion.*'
row refit-gate test-tools 'RefitGate.*'
suites neon tests/run_tests.sh "$build" -R '^neon/'
suites peers tests/run_tests.sh "$build" -R '^peer/'
suites sanitizers env -u MOEPACK_SOAK .ci/check.sh "$(nproc)" debug-clang-whole
suites races env -u MOEPACK_SOAK .ci/check.sh "$(nproc)" tsan-whole
suites clang env -u MOEPACK_SOAK .ci/check.sh "$(nproc)" release-clang-whole
script fresh-root tests/install/fresh_root.sh
script arm64 tests/install/arm64_packages.sh
script two-builds tests/install/two_builds.sh
case " $wanted " in
  *" fuzz "*)
    echo ''  # without an empty line its table would be a part of the one above
    .ci/fuzz.sh "${MOEPACK_FUZZ_SECONDS:-60}" || failed="$failed fuzz"
    ;;
esac

if [ -n "$failed" ]; then
  echo "make soak: failed:$failed (build/soak-*.log)" >&2
  exit 1
fi
