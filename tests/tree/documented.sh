#!/bin/sh
# Lists that the documentation has to follow: model families, commands, broken fixtures.
# usage: documented.sh ROOT families FAMILY_NAMES | commands MOEPACK | bad-fixtures
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
case $2 in
  families) "$3" | "$here/names_in_docs.sh" docs/families.md ;;
  commands)
    # The first word of each row of the command list.
    "$3" --help |
      awk '/^[A-Z].*:$/ { list = /ommands:$/; next } list && /^  [a-z]/ { print $1 }' |
      "$here/names_in_docs.sh" docs/cli.md
    ;;
  bad-fixtures)
    find fixtures/bad -mindepth 2 -maxdepth 2 | sed 's,.*/,,' | sort -u |
      "$here/names_in_docs.sh" fixtures/README.md
    ;;
esac
