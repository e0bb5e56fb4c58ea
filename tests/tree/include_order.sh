#!/bin/sh
# Includes follow .ci/layers.txt: a folder includes itself and the folders that its line names. What
# is marked (apart) there has to be named itself.
# Nothing includes tests, and fixtures/ includes nothing of ours: the tests must not build their
# inputs with the code they test. Every folder with sources has a line.
# usage: include_order.sh ROOT
set -eu
cd "$1"
folders=$(sed -n 's,^\([a-z-]*\)[/:].*,\1,p' .ci/layers.txt | sort -u)

found=$(find $folders \( -name '*.cc' -o -name '*.h' \) | sort | xargs -r awk '
  # Whether path is in folder.
  function within(path, folder) { return index(path "/", folder "/") == 1 }
  # The longest folder of the list that contains path.
  function layer(path,   name, best) {
    best = ""
    for (name in may) if (within(path, name) && length(name) > length(best)) best = name
    return best
  }
  # Whether a line that names `folder` lets files include `path`.
  function named(path, folder,   name) {
    if (!within(path, folder)) return 0
    for (name in apart) if (within(path, name) && !within(folder, name)) return 0
    return 1
  }
  FILENAME == ".ci/layers.txt" {
    sub(/#.*/, "")
    if (!/:/) next
    name = $1
    sub(/:.*/, "", name)
    sub(/^[^:]*:/, "")
    if (sub(/\(apart\)/, "")) apart[name] = 1
    may[name] = $0
    next
  }
  FNR == 1 {
    own = layer(FILENAME)
    if (own == "") print FILENAME ": expected a folder of .ci/layers.txt"
  }
  /^[ \t]*#[ \t]*include[ \t]*["<]/ {
    quoted = ($0 ~ /include[ \t]*"/)
    path = $0; sub(/^[^"<]*["<]/, "", path); sub(/[">].*/, "", path)
    found = quoted ? within(path, own) : layer(path) == ""
    count = quoted ? split(may[own], list, " ") : 0
    for (i = 1; i <= count; i++) if (named(path, list[i])) found = 1
    if (!found) print FILENAME ":" FNR ": expected a file of " own " " may[own] ", found " path
  }' .ci/layers.txt)
[ -z "$found" ] || { echo "$found"; exit 1; }
