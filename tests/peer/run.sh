#!/bin/sh
# Runs one of the scripts in this folder. Exit 77 (skipped) if install.sh could not install.
# usage: run.sh SCRIPT ROOT MOEPACK MAKE_FIXTURES WORK_DIR
set -eu
here=$(dirname "$0")
"$here/install.sh"
script=$1
shift
exec node "$here/$script" "$@"
