#!/bin/sh
# make check: what each compiler and sanitizer can find, once. docs/contributing.md says why each
# preset runs what it runs.
# usage: check.sh JOBS [preset ...]   (from the repository root; default: every row)
set -eu
jobs=$1
shift

# preset         targets to build              tests to run (options of ctest)
rows='
release          all                           -R .
debug-clang      all                           -E ^(neon|peer|tree|schema)/
release-clang    moepack,test-quant,test-libshard  -R ^(quant|libshard)/
tsan             test-libshard,test-manifest,test-runtime-shim  -R ^(libshard|manifest|runtime-shim)/.*(Parallel|Thread|Pool|Team|Pack|Pipeline|Journal|Output|Bundle|Executor|Session|Profile|Eval|Tree|Lock|Verify|Digest)
'

echo "$rows" | while read -r preset targets option pattern; do
  [ -n "$preset" ] || continue
  case " $* " in *" $preset "* | '  ') ;; *) continue ;; esac
  build=build/$preset
  echo "== $preset"
  start=$(date +%s)
  cmake --preset "$preset" >/dev/null
  cmake --build "$build" -j "$jobs" --target $(echo "$targets" | tr , ' ')
  built=$(date +%s)
  tests/run_tests.sh "$build" "$option" "$pattern" </dev/null
  echo "== $preset: built in $((built - start)) s, tested in $(($(date +%s) - built)) s"
done
