#!/bin/sh
# Every name on stdin, one per line, occurs as a word in FILE; there has to be at least one name.
# usage: names_in_docs.sh FILE
set -eu
file=$1
status=0
count=0
while read -r name; do
  count=$((count + 1))
  if ! grep -qwF -- "$name" "$file"; then
    echo "$file: expected $name, found no mention"
    status=1
  fi
done
echo "$count names looked up in $file"
[ $count -gt 0 ] || status=1
exit $status
