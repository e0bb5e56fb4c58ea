#!/bin/bash
# Starts a Slurm for this machine only, as root and without systemd, and runs
# docs/examples/scale-out/slurm-build.sh as a job array of four tasks, one of which dies first; then
# slurm-join.sh. Exit 77 (skipped) if Slurm cannot be started.
# usage: slurm.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"

. "$root/tests/scale-out/start_slurm.sh"
prepare

examples=$root/docs/examples/scale-out
# The task that dies: the first time, it is killed before it does anything.
rm "$work/bin/moepack"  # a link to the program
cat >"$work/bin/moepack" <<WRAPPER
#!/bin/sh
if [ "\${SLURM_ARRAY_TASK_ID-}" = 2 ] && [ "\${SLURM_RESTART_COUNT:-0}" = 0 ]; then kill -9 \$\$; fi
exec "$moepack" "\$@"
WRAPPER
chmod +x "$work/bin/moepack"
job=$(sbatch --parsable --array=0-3 --output=task-%a.log "$examples/slurm-build.sh")
failed=$(wait_for "$job")
[ "$failed" = JobState=FAILED ] || {
  echo "expected one failed task, found: $failed"
  cat task-*
  exit 1
}
if "$moepack" join out.tasks -o out >join.log 2>&1; then
  echo "joined without a task"
  exit 1
fi
grep -q 'tasks: expected 4, found 3: 2 is missing' join.log || { cat join.log; exit 1; }
scontrol requeue "${job}_2"
# Slurm lets a requeued job wait for two minutes.
scontrol update JobId="${job}_2" StartTime=now
failed=$(wait_for "$job")
[ -z "$failed" ] || {
  echo "expected no failed task, found: $failed"
  cat task-*
  exit 1
}
grep -q 'note: task 3 of 4, by SLURM_ARRAY_TASK_ID' task-3.log || { cat task-3.log; exit 1; }
join=$(sbatch --parsable --output=join.log "$examples/slurm-join.sh")
failed=$(wait_for "$join")
[ -z "$failed" ] || { echo "the join: $failed"; cat join.log; exit 1; }
compare 4
