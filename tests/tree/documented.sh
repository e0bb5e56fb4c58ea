#!/bin/sh
# Lists that the documentation has to follow: model families, commands, broken fixtures; and the
# tests that it names have to exist.
# usage: documented.sh ROOT families FAMILY_NAMES | commands MOEPACK | bad-fixtures | traps |
#                           promises
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
  traps | promises)
    # `Suite.Name` in the table of traps; a long TEST(Suite, Name) is broken after the comma. A
    # promise
    # may also name a test of CTest, `folder/name`.
    tests=$(mktemp)
    trap 'rm -f "$tests"' EXIT
    find tests -name '*_test.cc' -exec cat {} + | tr '\n' ' ' |
      grep -oE 'TEST(_[FP])?\(\w+, +\w+\)' | sed -E 's/.*\((\w+), +(\w+)\)/\1.\2/' >"$tests"
    find tests -name CMakeLists.txt -exec cat {} + | sed -nE \
      -e 's,.*add_test\(NAME ([a-z-]+/\w+).*,\1,p' \
      -e 's,^moepack_peer_test\((\w+) .*,peer/\1,p' >>"$tests"
    case $2 in
      traps) file=docs/conversion.md section='## Traps' ;;
      promises) file=CHANGELOG.md section='## What 1.x promises' ;;
    esac
    awk -v section="$section" '/^## / { inside = $0 == section } inside' "$file" |
      grep -oE '`([A-Z]\w*\.[A-Z]\w*|[a-z-]+/[a-z]\w*_\w*)`' | tr -d '`' |
      "$here/names_in_docs.sh" "$tests"
    ;;
esac
