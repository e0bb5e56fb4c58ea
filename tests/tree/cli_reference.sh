#!/bin/sh
# docs/cli.md is a hand-written head, down to the marker line, followed by exactly what `moepack
# help --markdown` prints.
# usage: cli_reference.sh --check|--write FILE MOEPACK
set -eu
mode=$1
file=$2
moepack=$3
marker='<!-- Below this line: moepack help --markdown, put here by make docs. -->'

page() {
  if grep -qxF -- "$marker" "$file" 2>/dev/null; then
    awk -v marker="$marker" '{ print } $0 == marker { exit }' "$file"
  else
    printf '# Commands\n\n%s\n' "$marker"
  fi
  echo
  "$moepack" help --markdown
}

expected=$(mktemp)
trap 'rm -f "$expected"' EXIT
page >"$expected"
if [ "$mode" = --write ]; then
  cat "$expected" >"$file"
elif ! diff -u "$file" "$expected"; then
  echo "$file: stale; run make docs"
  exit 1
fi
