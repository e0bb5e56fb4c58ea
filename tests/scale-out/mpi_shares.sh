#!/bin/bash
# A profile, a refit and a calibration with two processes of Open MPI on this machine, of which one
# is killed once per layer and started again: the bytes are those of single runs.
# Exit 77 (skipped) if it is not installed.
# usage: mpi_shares.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"
. "$root/tests/scale-out/killed_once_per_layer.sh"

command -v mpirun >/dev/null || skip "mpirun (openmpi-bin) is not installed"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not that of Open MPI"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
SOURCE=$root/fixtures/tiny-moe
TEXTS="$root/fixtures/texts/manual.md $root/fixtures/texts/header.txt"
mpirun_options=--oversubscribe
[ "$(id -u)" -ne 0 ] || mpirun_options="--allow-run-as-root --oversubscribe"
few="--most-tokens 300 --context 64"

"$moepack" profile "$SOURCE" --text $TEXTS -o whole.json >/dev/null
mpirun $mpirun_options -n 2 "$moepack" profile "$SOURCE" --text $TEXTS -o out.json --task auto \
  >profile.log 2>&1 || { cat profile.log; exit 1; }
"$moepack" join out.json.tasks -o out.json >/dev/null
cmp whole.json out.json

refit="--least-tokens 20 --steps ridge $few"
"$moepack" plan "$SOURCE" --groups 2 -o plan.json >/dev/null
"$moepack" refit "$SOURCE" --plan plan.json --text $TEXTS -o whole $refit --no-task >/dev/null 2>&1
kill_once_per_layer
PATH=$work/bin:$PATH
mpirun $mpirun_options -n 2 moepack refit "$SOURCE" --plan plan.json --text $TEXTS -o out \
  --task auto $refit >refit.log 2>&1 || { cat refit.log; exit 1; }
expect_kills refit
"$moepack" join out.tasks -o out >/dev/null
diff -r whole.refit out.refit
diff -r whole out

RECIPE=Q4_K_M
CALIBRATE_OPTIONS="--least-tokens 8 $few"
"$moepack" quantize "$SOURCE" --recipe $RECIPE --calibrate $TEXTS -o whole.gguf --no-task \
  $CALIBRATE_OPTIONS >/dev/null 2>&1
TASKS=2
MPIRUN_OPTIONS=$mpirun_options
OUT=$work/out.gguf
export SOURCE RECIPE TEXTS CALIBRATE_OPTIONS TASKS MPIRUN_OPTIONS OUT PATH
sh "$root/docs/examples/scale-out/mpi-calibrate.sh" >calibrate.log 2>&1 ||
  { cat calibrate.log; exit 1; }
expect_kills quantize
diff -r whole.gguf.calibrated out.gguf.calibrated
cmp whole.gguf out.gguf
cat kills
echo "two tasks gave the bytes of single runs"
