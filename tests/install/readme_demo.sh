#!/bin/sh
# The session that README.md shows, run with the moepack of PATH: the lines between the command and
# "wrote" must match README.md, and so must the digest of the distribution.
# usage: readme_demo.sh ROOT   (in a directory with fixtures, where it writes out and node-0)
set -eu
root=$1
command=$(grep -m 1 '^\$ moepack build .*overlay-file' "$root/README.md" | sed 's/^\$ //')
rm -rf out node-0 readme.log
$command >readme.log 2>&1 || { cat readme.log; exit 1; }
awk -v command="\$ $command" '
  $0 == command { inside = 1; next }
  inside && /^wrote / { inside = 0; next }
  inside || /^distribution.json sha256:/' "$root/README.md" | awk '!seen[$0]++' >expected
awk '/^wrote / { past = 1 } !past || /^distribution.json sha256:/' readme.log |
  awk '!seen[$0]++' >found
diff expected found
moepack verify out --against fixtures/tiny-moe >readme.log || { cat readme.log; exit 1; }
moepack assemble out --group 0 -o node-0 >readme.log || { cat readme.log; exit 1; }
grep '^distribution.json' found
