#!/bin/sh
# One task of a refit for each element of a Slurm job array. docs/scale-out.md explains it.
#SBATCH --job-name=moepack-refit
#SBATCH --array=0-15
#SBATCH --requeue
set -eu
exec moepack refit "$SOURCE" --plan "$PLAN" --text $TEXTS -o "$OUT" --task auto ${REFIT_OPTIONS-}
