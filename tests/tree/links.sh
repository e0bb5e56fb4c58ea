#!/bin/sh
# Every relative link of every .md file leads to a file of the tree and, after a #, to a heading of
# it, and so does every path in backquotes that begins with a folder of the tree (README.md, docs/,
# fixtures/README.md).
# usage: links.sh ROOT
set -eu
cd "$1"
documents=$(find . \( -name 'build*' -o -name .git \) -prune -o -name '*.md' -print | sort)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# "file#anchor" of every heading, as GitHub and GitLab name it.
echo "$documents" | xargs -r awk '
    FNR == 1 { code = 0; split("", seen) }
    /^ *```/ { code = !code }
    !code && /^#+ / {
      slug = tolower($0)
      sub(/^#+ +/, "", slug)
      gsub(/[^a-z0-9 _-]/, "", slug)
      gsub(/ /, "-", slug)
      print FILENAME "#" slug (seen[slug] ? "-" seen[slug] : "")
      ++seen[slug]
    }' >"$scratch/anchors"

# "file<TAB>target" per link; code blocks and links that leave the tree are ignored.
broken=$(echo "$documents" | xargs -r awk '
    FNR == 1 { code = 0 }
    /^ *```/ { code = !code }
    !code {
      line = $0
      gsub(/`[^`]*`/, "", line)
      while (match(line, /\]\([^) ]+/)) {
        print FILENAME "\t" substr(line, RSTART + 2, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
      }
    }' |
  while IFS="$(printf '\t')" read -r file target; do
    case $target in *://* | mailto:*) continue ;; esac
    place=$file
    [ -z "${target%%#*}" ] || place=$(dirname "$file")/${target%%#*}
    if [ ! -e "$place" ]; then
      echo "$file: link to $target: expected a file of the tree, found none"
      continue
    fi
    case $target in *.md#* | \#*) ;; *) continue ;; esac
    grep -qxF "./$(realpath --relative-to=. "$place")#${target#*#}" "$scratch/anchors" ||
      echo "$file: link to $target: expected a heading of that name, found none"
  done)
[ -z "$broken" ] || { echo "$broken"; exit 1; }

folders='\.ci|docs|fixtures|libshard|manifest|quant|runtime-shim|tests|tools'
missing=$(find README.md CHANGELOG.md docs fixtures/README.md -name '*.md' |
  sort | xargs -r grep -oHE '`('"$folders"')/[A-Za-z0-9_./*-]+`' | tr -d '`' | sort -u |
  while IFS=: read -r file path; do
    case $path in */node_modules) continue ;; esac  # installed, not in the tree
    ls -d $path >/dev/null 2>&1 || echo "$file: $path: expected a file of the tree, found none"
  done)
[ -z "$missing" ] || { echo "$missing"; exit 1; }
