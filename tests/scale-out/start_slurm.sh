# Shared by the tests with Slurm, which read it with `.`, after sample.sh.
# Starts a Slurm for this machine only, as root and without systemd; it ends with the test. Exit 77
# (skipped) if it cannot be started.

PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch scontrol; do
  command -v "$program" >/dev/null || skip "$program (slurm-wlm, munge) is not installed"
done
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons are started as root"
host=$(hostname -s)
getent hosts "$host" >/dev/null || skip "the name of this host, $host, has no address"

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
