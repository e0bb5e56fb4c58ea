#!/bin/sh
# The demo: the bundled tiny model in three groups with an overlay, proved against the source.
# usage: demo.sh MOEPACK   (from the repository root)
set -eu
moepack=$1
source=fixtures/tiny-moe
out=build/demo

step() {
  printf '\n$ moepack %s\n' "$*"
  "$moepack" "$@"
}

rm -rf "$out"
mkdir -p "$out"
step list-tensors $source --summary
step build $source --groups 3 --overlay-file fixtures/tiny-overlay.json -o $out/tiny-3 --force
step verify $out/tiny-3 --against $source
step assemble $out/tiny-3 --group 1 -o $out/node1 --force

cat <<END

The distribution is in $out/tiny-3, one node's own directory in $out/node1. What to try next:

  # what is in one layer
  $moepack list-tensors $source --layer 0
  # how another split would look, without writing it
  $moepack build $source --groups 2 --partition modulo -o $out/tiny-2 --dry-run
  # your own checkpoint
  $moepack build YOUR_MODEL_DIR --groups 4 -o out
  # every command; docs/cli.md has them all
  $moepack --help

README.md's commands call it moepack; in this shell that takes one line:

  export PATH=\$PWD/$(dirname "$moepack"):\$PATH
END
