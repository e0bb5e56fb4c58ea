#!/bin/sh
# One task of a build for each element of a Slurm job array. docs/scale-out.md explains it.
#SBATCH --job-name=moepack-build
#SBATCH --array=0-15
#SBATCH --requeue
set -eu
exec moepack build "$SOURCE" --groups "$GROUP_COUNT" --quantize "$RECIPE" -o "$OUT" \
  --task auto
