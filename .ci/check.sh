#!/bin/sh
# make check: what the other compiler and the sanitizers can find, beside `make test`.
# docs/contributing.md says why each preset runs what it runs.
# usage: check.sh JOBS [row ...]   (from the repository root; default: every row)
# Row debug-clang-whole: the long suites of debug-clang too, about an hour more.
set -eu
jobs=$1
shift
wanted=${*:-debug-clang release-clang tsan}

# The tests that start threads.
threads='libshard/(ParallelFor|RunOnThreads|Interrupt|Pack|OutputStream|MappedFile|MemoryTree)'
threads="$threads|manifest/(VerifyTest|VerifyBytes|VerifyAgainst[.]|WriteDistribution|AssembleNode)"
threads="$threads|manifest/(FetchFileTest|FetchPass|FetchPlan|PieceBuffers)"
threads="$threads|runtime-shim/(CInterface|ThreadTeam|Load|CpuExecutor|Collector|Profile)"
threads="$threads|runtime-shim/(Generation|NodeOfTiny|Session|Model[.]|CheckOfTiny|Evaluation)"

# Suites that take more than 80 s under AddressSanitizer: one case in eight of each. Row
# debug-clang-whole, which make soak runs, takes all of them.
long='tools/(BuildRefit|CheckCommand|ExperimentCommand|HostileText|OnEveryExecutor|OptionRules)'
long="$long|tools/(OverlayCommand|Pages/DocumentedOutput|PlanFromStatistics|PlannedSplit)"
long="$long|tools/(RefitCommand|RefitGate|ReportInABrowser|VerifyRedo)"
long="$long|remote/(CachedCommands|HelpExamples|HostileServers|KilledRegistryRuns|KilledRuns)"
long="$long|remote/(OriginCommands|RegistryCommands)"
long="$long|manifest/(ExistingOutput|FetchFileOthersTest|JoinTasksTest|JoinTest)"
long="$long|manifest/(PullWithoutLocksTest|Disagreements/HostileLayout)"
long="$long|conformance/(All/GgufSources|Layouts/OddShards|TinySigmoid)"
long="$long|runtime-shim/(Every/RefitOfFamily|Layouts/RefitOfCheckpoint|Refit)[.]"
long="$long|cuda-emulated/(ExecutorAttention|ExecutorProducts|RefitOn)|faults/Commands/Limits"
long="$long|fuzz/FuzzEvaluation|libshard/Listings/ConvertQuantized|quant/On/TargetsEncode"

wants() {
  case " $wanted " in *" $1 "*) ;; *) return 1 ;; esac
}

# usage: build PRESET "TARGETS"
build() {
  echo "== $1"
  start=$(date +%s)
  cmake --preset "$1" >/dev/null
  # shellcheck disable=SC2086  # one word per target
  cmake --build "build/$1" -j "$jobs" --target $2
  built=$(date +%s)
}

# usage: run PRESET CTEST_OPTION PATTERN
run() {
  tests/run_tests.sh "build/$1" "$2" "$3" || failed="$failed $1"
  echo "== $1: built in $((built - start)) s, tested in $(($(date +%s) - built)) s"
}

failed=

if wants debug-clang || wants debug-clang-whole; then
  build debug-clang all
  skipped='(install|neon|peer|scale-out|schema|tree)/'
  if wants debug-clang; then
    run debug-clang -E "^($skipped|$long)"
    GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=0 run debug-clang -R "^($long)"
  else
    run debug-clang -E "^$skipped"
  fi
fi
if wants release-clang; then
  build release-clang 'test-quant test-libshard'
  run release-clang -R '^(quant|libshard)/'
fi
if wants tsan; then
  build tsan 'test-libshard test-manifest test-runtime-shim'
  run tsan -R "^($threads)"
fi

if [ -n "$failed" ]; then
  echo "make check: tests failed in:$failed" >&2
  exit 1
fi
