#!/bin/sh
# Includes follow quant <- libshard <- manifest <- runtime-shim <- tools ("may be included by";
# steps may be skipped, never reversed), nothing includes tests, and fixtures/ includes nothing of
# ours: the tests must not build their inputs with the code they test.
# usage: include_order.sh ROOT
set -eu
cd "$1"
status=0

# The first folder may include files of the folders after it; system headers come in <>.
check() {
  folder=$1
  allowed=$2
  found=$(find "$folder" -name '*.cc' -o -name '*.h' | sort | xargs -r awk -v folders="$allowed" '
    BEGIN { count = split(folders, list, " "); for (i = 1; i <= count; i++) may[list[i]] = 1
            split("quant libshard manifest runtime-shim tools tests fixtures", all, " ")
            for (i in all) ours[all[i]] = 1 }
    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
      quoted = ($0 ~ /include[ \t]*"/)
      path = $0; sub(/^[^"<]*["<]/, "", path); sub(/[">].*/, "", path)
      top = path; sub(/\/.*/, "", top)
      if ((quoted && !(top in may)) || (!quoted && (top in ours)))
        print FILENAME ":" FNR ": expected \"FOLDER/...\" of " folders ", found " path
    }')
  if [ -n "$found" ]; then
    echo "$found"
    status=1
  fi
}

check quant "quant"
check libshard "libshard quant"
check manifest "manifest libshard quant"
check runtime-shim "runtime-shim manifest libshard quant"
check tools "tools runtime-shim manifest libshard quant"
check fixtures "fixtures"
check tests "tests fixtures tools runtime-shim manifest libshard quant"
exit $status
