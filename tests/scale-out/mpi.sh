#!/bin/sh
# Runs docs/examples/scale-out/mpi.sh with four processes of Open MPI on this machine.
# Exit 77 (skipped) if it is not installed.
# usage: mpi.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"

command -v mpirun >/dev/null || skip "mpirun (openmpi-bin) is not installed"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not that of Open MPI"
prepare
TASKS=4
MPIRUN_OPTIONS=--oversubscribe
[ "$(id -u)" -ne 0 ] || MPIRUN_OPTIONS="--allow-run-as-root --oversubscribe"
export TASKS MPIRUN_OPTIONS
sh "$root/docs/examples/scale-out/mpi.sh" >mpi.log 2>&1 || { cat mpi.log; exit 1; }
grep -q 'note: task 3 of 4, by OMPI_COMM_WORLD_RANK' mpi.log || { cat mpi.log; exit 1; }
compare 4
