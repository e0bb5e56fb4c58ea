#!/bin/sh
# make check: what each compiler and sanitizer can find, once. docs/contributing.md says why each
# preset runs what it runs.
# usage: check.sh JOBS [preset ...]   (from the repository root; default: every row)
set -eu
jobs=$1
shift
wanted=${*:-release debug-clang release-clang tsan}

# The tests that start threads.
threads='libshard/(ParallelFor|RunOnThreads|Interrupt|Pack|OutputStream|MappedFile|MemoryTree)'
threads="$threads|manifest/(VerifyTest|VerifyBytes|VerifyAgainst[.]|WriteDistribution|AssembleNode)"
threads="$threads|manifest/(FetchFileTest|FetchPass|FetchPlan|PieceBuffers)"
threads="$threads|runtime-shim/(CInterface|ThreadTeam|Load|CpuExecutor|Collector|Profile)"
threads="$threads|runtime-shim/(Generation|NodeOfTiny|Session|Model[.]|CheckOfTiny|Evaluation)"

# Whole commands on much text, or in a browser, whose code other tests run as well on a little.
long='tools/(RefitGate|ReportInABrowser|Pages/DocumentedOutput)'

# usage: check PRESET "TARGETS" CTEST_OPTION PATTERN
check() {
  case " $wanted " in *" $1 "*) ;; *) return 0 ;; esac
  echo "== $1"
  start=$(date +%s)
  cmake --preset "$1" >/dev/null
  # shellcheck disable=SC2086  # one word per target
  cmake --build "build/$1" -j "$jobs" --target $2
  built=$(date +%s)
  tests/run_tests.sh "build/$1" "$3" "$4" || failed="$failed $1"
  echo "== $1: built in $((built - start)) s, tested in $(($(date +%s) - built)) s"
}

failed=

check release all -R .
check debug-clang all -E "^((neon|peer|tree|schema)/|$long)"
check release-clang 'moepack test-quant test-libshard' -R '^(quant|libshard)/'
check tsan 'test-libshard test-manifest test-runtime-shim' -R "^($threads)"

if [ -n "$failed" ]; then
  echo "make check: tests failed in:$failed" >&2
  exit 1
fi
