#!/bin/bash
# Starts a Slurm for this machine only, as root and without systemd, and runs
# docs/examples/scale-out/slurm-build.sh as a job array of four tasks, one of which dies first; then
# slurm-join.sh. Exit 77 (skipped) if Slurm cannot be started.
# usage: slurm.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"

PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch scontrol; do
  command -v "$program" >/dev/null || skip "$program (slurm-wlm, munge) is not installed"
done
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons are started as root"
host=$(hostname -s)
getent hosts "$host" >/dev/null || skip "the name of this host, $host, has no address"
prepare

# Sockets need short paths.
slurm=$(mktemp -d /tmp/moepack-slurm.XXXXXX)
stop() {
  for name in d ctld munge; do
    [ ! -s "$slurm/$name.pid" ] || kill "$(cat "$slurm/$name.pid")" 2>/dev/null || true
  done
  wait  # they write until they exit
  rm -rf "$slurm"
}
trap stop EXIT
port=$((20000 + $$ % 20000))
mkdir "$slurm/state" "$slurm/spool"
cat >"$slurm/slurm.conf" <<CONF
ClusterName=t
SlurmctldHost=$host
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.sock
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/ctld.pid
SlurmdPidFile=$slurm/d.pid
SlurmctldLogFile=$slurm/ctld.log
SlurmdLogFile=$slurm/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
NodeName=$host CPUs=2 State=UNKNOWN
PartitionName=p Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
head -c 1024 /dev/urandom >"$slurm/munge.key"
chmod 0400 "$slurm/munge.key"
export SLURM_CONF=$slurm/slurm.conf
munged --socket="$slurm/munge.sock" --key-file="$slurm/munge.key" --log-file="$slurm/munge.log" \
  --pid-file="$slurm/munge.pid" --seed-file="$slurm/munge.seed" --force -F >/dev/null 2>&1 &
for _ in $(seq 50); do [ -S "$slurm/munge.sock" ] && break; sleep 0.1; done
slurmctld -D >/dev/null 2>&1 &
echo $! >"$slurm/ctld.pid"
slurmd -D >/dev/null 2>&1 &
echo $! >"$slurm/d.pid"
for _ in $(seq 100); do
  sinfo -h -o %T 2>/dev/null | grep -q idle && break
  sleep 0.2
done
sinfo -h -o %T 2>/dev/null | grep -q idle ||
  skip "Slurm did not start: $(tail -n 1 "$slurm/ctld.log")"

# Waits until the job is over, with all its tasks; prints the states other than COMPLETED.
wait_for() {
  for _ in $(seq 900); do
    state=$(scontrol show job "$1" 2>/dev/null | grep -o 'JobState=[A-Z_]*')
    echo "$state" | grep -qE '=(PENDING|RUNNING|COMPLETING|CONFIGURING)' || break
    sleep 0.2
  done
  scontrol show job "$1" | grep -o 'JobState=[A-Z_]*' | grep -v COMPLETED || true
}

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
