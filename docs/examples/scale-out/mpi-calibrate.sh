#!/bin/sh
# Quantizes a model with error feedback on calibration text, with the processes of an MPI launcher:
# TASKS of them, on the hosts that MPIRUN_OPTIONS name, then joins what they wrote. OUT is a GGUF on
# a file system that all of them share. docs/scale-out.md explains it.
set -eu
mpirun ${MPIRUN_OPTIONS-} -n "$TASKS" \
  moepack quantize "$SOURCE" --recipe "$RECIPE" --calibrate $TEXTS -o "$OUT" --task auto \
  ${CALIBRATE_OPTIONS-}
moepack join "$OUT.tasks" -o "$OUT"
rm -r "$OUT.tasks" "$OUT.calibrated.tasks"
