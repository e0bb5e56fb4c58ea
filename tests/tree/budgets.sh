#!/bin/sh
# Size budgets: a .cc file has at most 600 lines, a header 250, a function 60, a line 100 columns.
# More needs a line that starts with "// Long because" and gives the reason: in the file for its
# length, in the function for its own.
# usage: budgets.sh ROOT
set -eu
cd "$1"
folders=$(sed -n 's,^\([a-z-]*\)[/:].*,\1,p' .ci/layers.txt | sort -u)
sources=$(find $folders \( -name '*.cc' -o -name '*.h' \) | sort)
scripts=$(find $folders .ci \( -name '*.sh' -o -name '*.mjs' \) | sort)
status=0

report() {
  if [ -n "$1" ]; then
    echo "$1"
    status=1
  fi
}

report "$(echo "$sources" | xargs -r awk '
  function file_done() {
    if (lines > limit && !reason)
      print file ": expected at most " limit " lines, found " lines
  }
  FNR == 1 { file_done(); file = FILENAME; reason = 0; limit = file ~ /\.h$/ ? 250 : 600 }
  { lines = FNR }
  /^\/\/ Long because ./ { reason = 1 }
  END { file_done() }')"

# clang-format leaves a function of a namespace at column 0: its signature starts there (and may
# go on indented), its body ends with "}" there. Tables and types may be long.
report "$(echo "$sources" | xargs -r awk '
  FNR == 1 { inside = 0; start = 0 }
  !inside && /^[A-Za-z_~\[:]/ {
    start = FNR
    type = ($0 ~ /^(namespace|struct|class|enum|union|extern)/)
  }
  !inside && /\{$/ {
    inside = !($0 ~ /^(namespace|extern "C")/)
    table = type || $0 ~ /[=(,{] ?\{$/
    reason = 0
  }
  /^ *\/\/ Long because ./ { reason = 1 }
  inside && /^}/ {
    length_found = FNR - start + 1
    if (!table && !reason && length_found > 60)
      print FILENAME ":" start ": expected a function of at most 60 lines, found " length_found
    inside = 0
  }')"

report "$(printf '%s\n' "$sources" "$scripts" | LC_ALL=C.UTF-8 xargs -r grep -HnE '^.{101,}' |
  sed -E 's/^([^:]*:[0-9]+):.*/\1: expected at most 100 columns/')"
exit $status
