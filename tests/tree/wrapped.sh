#!/bin/sh
# Paragraphs and lists of the documents are wrapped at 100 columns. Tables, code blocks, headings
# and a single long word, such as a link, may be wider.
# usage: wrapped.sh ROOT
set -eu
cd "$1"
documents=$(find README.md CHANGELOG.md docs fixtures/README.md -name '*.md' | sort)
wide=$(echo "$documents" | xargs -r awk '
    FNR == 1 { code = 0 }
    /^ *```/ { code = !code; next }
    !code && !/^ *\|/ && !/^[#<]/ && /[^ ] [^ ]/ { print FILENAME ":" FNR "\t" $0 }' |
  LC_ALL=C.UTF-8 grep -E '	.{101,}' |
  cut -f1 |
  sed 's/$/: expected at most 100 columns/') || true
[ -z "$wide" ] || { echo "$wide"; exit 1; }
