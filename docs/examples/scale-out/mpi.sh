#!/bin/sh
# Builds a distribution with the processes of an MPI launcher: TASKS of them, on the hosts that
# MPIRUN_OPTIONS name (--hostfile FILE), then joins and verifies what they wrote.
# docs/scale-out.md explains it.
set -eu
mpirun ${MPIRUN_OPTIONS-} -n "$TASKS" \
  moepack build "$SOURCE" --groups "$GROUP_COUNT" --quantize "$RECIPE" -o "$OUT" --task auto
moepack join "$OUT.tasks" -o "$OUT"
moepack verify "$OUT" --complete
