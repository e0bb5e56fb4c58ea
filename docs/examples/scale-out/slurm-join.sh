#!/bin/sh
# Joins what the job array of slurm-build.sh wrote. docs/scale-out.md explains it.
#SBATCH --job-name=moepack-join
set -eu
moepack join "$OUT.tasks" -o "$OUT"
moepack verify "$OUT" --complete
