#!/bin/bash
# The Dockerfile names only what the tree has: targets of the Makefile, packages of .ci/packages.txt
# or those that our own package recommends, and the file that cpack writes.
# usage: dockerfile.sh ROOT
set -eu
cd "$1"
file=docs/examples/Dockerfile
status=0
complain() {
  echo "$file: $1"
  status=1
}
# One instruction per line.
steps=$(sed -e ':join' -e '/\\$/N; s/\\\n *//; tjoin' -e '/^#/d' "$file")
[ "$(echo "$steps" | grep -c '^FROM debian:bookworm-slim')" = 2 ] ||
  complain "expected two stages on Debian slim"

targets=$(echo "$steps" | grep -oE '(^|&& )make [a-z]+' | sed 's/.*make //')
[ -n "$targets" ] || complain "expected make, found none"
for target in $targets; do
  grep -q "^\.PHONY:.* $target\b" Makefile || complain "make $target: expected a target of Makefile"
done

listed=$(sed -n 's/^\([a-z][^ ?]*\).*/\1/p' .ci/packages.txt)
recommended=$(sed -n 's/^set(CPACK_DEBIAN_MOEPACK_PACKAGE_RECOMMENDS "\(.*\)")/\1/p' \
  tools/install/packages.cmake | tr -d ,)
count=0
for name in $(echo "$steps" | grep -oE 'apt-get install [^&]*' | sed 's/apt-get install//'); do
  case $name in -y | --no-install-recommends) continue ;; esac
  count=$((count + 1))
  case $name in
    /tmp/moepack_\*.deb) ;;
    *)
      echo "$listed" $recommended | tr ' ' '\n' | grep -qxF "$name" ||
        complain "$name: expected a package of .ci/packages.txt or one that moepack recommends"
      ;;
  esac
done
[ "$count" -ge 3 ] || complain "expected packages, found $count"

copied='COPY --from=build /source/build/release/packages/moepack_*.deb /tmp/'
grep -q 'CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages' tools/install/packages.cmake &&
  echo "$steps" | grep -qxF "$copied" ||
  complain "expected a COPY of what cpack writes"
echo "$steps" | grep -qx 'ENTRYPOINT \["moepack"\]' ||
  complain "expected moepack as the entry point"
# What git ignores must not be copied: a build of another directory would not be configured again.
while read -r ignored; do
  ignored=${ignored%/}
  case $ignored in /*) ignored=${ignored#/} ;; *) ignored="**/$ignored" ;; esac
  grep -qxF "$ignored" "$file.dockerignore" ||
    complain "expected $ignored in $file.dockerignore, found none"
done <.gitignore
exit $status
