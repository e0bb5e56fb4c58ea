#!/bin/sh
# Lists that the documentation has to follow: model families, commands, broken fixtures; and the
# tests that it names have to exist.
# usage: documented.sh ROOT families FAMILY_NAMES | commands MOEPACK | bad-fixtures | traps
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
case $2 in
  families) "$3" | "$here/names_in_docs.sh" docs/families.md ;;
  commands)
    # The first word of each row of the list.
    "$3" --help | awk '/^  [a-z]/ { print $1 }' |
      "$here/names_in_docs.sh" docs/cli.md
    ;;
  bad-fixtures)
    find fixtures/bad -mindepth 2 -maxdepth 2 | sed 's,.*/,,' | sort -u |
      "$here/names_in_docs.sh" fixtures/README.md
    ;;
  traps)
    # `Suite.Name` in the table of traps; a long TEST(Suite, Name) is broken after the comma.
    tests=$(mktemp)
    trap 'rm -f "$tests"' EXIT
    find tests -name '*_test.cc' -exec cat {} + | tr '\n' ' ' |
      grep -oE 'TEST(_[FP])?\(\w+, +\w+\)' | sed -E 's/.*\((\w+), +(\w+)\)/\1.\2/' >"$tests"
    awk '/^## / { inside = $0 == "## Traps" } inside' docs/conversion.md |
      grep -oE '`[A-Z]\w*\.[A-Z]\w*`' | tr -d '`' | "$here/names_in_docs.sh" "$tests"
    ;;
esac
