#!/bin/sh
# make check: the suites that take too long for `make test` (label check), and what the other
# compiler and the sanitizers can find.
# docs/contributing.md says why each preset runs what it runs.
# usage: check.sh JOBS [row ...]   (from the repository root; default: every row)
# Rows for make soak, each more than an hour: debug-clang-whole runs the long suites of debug-clang
# too, release-clang-whole and tsan-whole all tests that another compiler or a race could fail.
set -eu
jobs=$1
shift
wanted=${*:-release debug-clang release-clang tsan}

# "|FOLDER/NAME" of suites whose names begin so. CTest reads no expression with ten parentheses.
# usage: suites FOLDER NAME ...
suites() {
  folder=$1
  shift
  printf "|$folder/%s" "$@"
}

# The tests that start threads.
threads=$(
  suites libshard ParallelFor RunOnThreads Interrupt Pack OutputStream MappedFile MemoryTree \
    Sha256Of ScanFile Checkpoint[.] SideFilesTest ModelDamage TypeBudgets \
    RefittedLayout Expectation[.] CacheReplay HoldTogether SessionShares \
    ClusterSessions SessionGram
  suites manifest VerifyTest VerifyBytes VerifyAgainst[.] WriteDistribution AssembleNode \
    FetchFileTest FetchPass FetchPlan PieceBuffers NodeRecord MergeExperts \
    CopyTest PublishFilesTest HashingDirectories
  suites runtime-shim CInterface ThreadTeam Load CpuExecutor Collector Profile Generation \
    NodeOfTiny Session Model[.] CheckOfTiny Evaluation LoadTensorPlacer Refill \
    Ridge RouterFit Tune Every/TuneOf
)

# Suites that take more than 80 s under AddressSanitizer: one case in eight of each. Row
# debug-clang-whole, which make soak runs, takes all of them.
long=$(
  suites tools BuildRefit CheckCommand ExperimentCommand ExperimentWithRefits HostileText \
    OnEveryExecutor OptionRules OverlayCommand Pages/DocumentedOutput PlanFromStatistics \
    PlannedSplit RefitCommand RefitGate ReportInABrowser VerifyRedo
  suites remote CachedCommands HelpExamples HostileServers KilledRegistryRuns KilledRuns \
    OriginCommands RegistryCommands
  suites manifest ExistingOutput FetchFileOthersTest JoinTasksTest JoinTest PullWithoutLocksTest \
    Disagreements/HostileLayout
  suites conformance All/GgufSources Layouts/OddShards TinySigmoid
  suites runtime-shim Every/RefitOfFamily[.] Layouts/RefitOfCheckpoint[.] Refit[.] RefitOn \
    ExecutorProducts
  suites cuda-emulated CalibrateOn ExecutorAttention ExecutorProducts RefitOn
  suites faults Commands/Limits
  suites fuzz FuzzEvaluation
  suites libshard Listings/ConvertQuantized
  suites quant On/TargetsEncode
)

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

# Scripts that start programs of others, and tests of the tree.
skipped='(install|neon|peer|scale-out|schema|tree)/'

if wants release; then
  build release 'all check-tests'
  run release -L check
fi
if wants debug-clang || wants debug-clang-whole; then
  build debug-clang 'all check-tests'
  if wants debug-clang; then
    run debug-clang -E "^($skipped$long)"
    GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=0 run debug-clang -R "^(${long#|})"
  else
    run debug-clang -E "^$skipped"
  fi
fi
if wants release-clang; then
  build release-clang 'test-quant test-libshard'
  run release-clang -R '^(quant|libshard)/'
fi
if wants release-clang-whole; then
  build release-clang 'all check-tests'
  run release-clang -E "^$skipped"
fi
# Children of tests that fork start threads of their own, although the parent has some.
export TSAN_OPTIONS="die_after_fork=0 ${TSAN_OPTIONS:-}"
if wants tsan; then
  build tsan 'test-libshard test-manifest test-runtime-shim'
  run tsan -R "^(${threads#|})"
fi
if wants tsan-whole; then
  build tsan 'moepack test-libshard test-manifest test-runtime-shim test-tools test-remote'
  run tsan -R '^(libshard|manifest|runtime-shim|tools|remote)/'
fi

if [ -n "$failed" ]; then
  echo "make check: tests failed in:$failed" >&2
  exit 1
fi
