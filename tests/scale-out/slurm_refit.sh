#!/bin/bash
# Runs docs/examples/scale-out/slurm-refit.sh as a job array of two tasks, of which one is killed
# once per layer, and then slurm-join.sh: the bytes are those of one run. Exit 77 (skipped) if Slurm
# cannot be started.
# usage: slurm_refit.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"
. "$root/tests/scale-out/killed_once_per_layer.sh"
. "$root/tests/scale-out/start_slurm.sh"

rm -rf "$work"
mkdir -p "$work"
cd "$work"
SOURCE=$root/fixtures/tiny-moe
TEXTS="$root/fixtures/texts/manual.md $root/fixtures/texts/header.txt"
REFIT_OPTIONS="--least-tokens 20 --steps ridge --most-tokens 300 --context 64"
PLAN=$work/plan.json
OUT=$work/out
"$moepack" plan "$SOURCE" --groups 2 -o plan.json >/dev/null
"$moepack" refit "$SOURCE" --plan plan.json --text $TEXTS -o whole $REFIT_OPTIONS --no-task \
  >/dev/null 2>&1
kill_once_per_layer
PATH=$work/bin:$PATH
export SOURCE TEXTS REFIT_OPTIONS PLAN OUT PATH
examples=$root/docs/examples/scale-out
job=$(sbatch --parsable --array=0-1 --output=task-%a.log "$examples/slurm-refit.sh")
failed=$(wait_for "$job")
[ -z "$failed" ] || { echo "the refit: $failed"; cat task-*; exit 1; }
expect_kills refit
join=$(sbatch --parsable --output=join.log "$examples/slurm-join.sh")
failed=$(wait_for "$join")
[ -z "$failed" ] || { echo "the join: $failed"; cat join.log; exit 1; }
diff -r whole.refit out.refit
diff -r whole out
cat kills
echo "two tasks gave the bytes of one run"
