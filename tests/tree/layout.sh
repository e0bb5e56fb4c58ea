#!/bin/sh
# The top level holds exactly what docs/architecture.md says.
# usage: layout.sh ROOT
set -eu
cd "$1"
status=0
expected="CMakeLists.txt tools libshard quant manifest runtime-shim tests fixtures docs README.md
  CHANGELOG.md LICENSE Makefile CMakePresets.json .clang-format .clang-tidy .ci .gitignore"
for name in $expected; do
  if [ ! -e "$name" ]; then
    echo "$name: expected at the top level, found nothing"
    status=1
  fi
done
# In a git checkout only files known to git count; in an unpacked archive everything does, except
# what a build leaves and what the archive adds (tools/install/source.sh).
entries=$(git ls-files --cached --others --exclude-standard 2>/dev/null | sed 's,/.*,,' | sort -u)
[ -n "$entries" ] || entries=$(ls -A | grep -vxE 'build.*|share|\.git' || true)
for name in $entries; do
  case " $(echo $expected) " in
    *" $name "*) ;;
    *)
      echo "$name: expected nothing else at the top level"
      status=1
      ;;
  esac
done
exit $status
