#!/bin/sh
# Every C++ file is formatted as by clang-format. Exit 77 (skipped) if clang-format is not
# installed.
# usage: formatted.sh ROOT
set -eu
cd "$1"
# Versions format a few constructs differently, so the one of Debian 12 decides.
formatter=$(command -v clang-format-14 || command -v clang-format || true)
case $([ -z "$formatter" ] || "$formatter" --version) in
  *"version 14."*) ;;
  *)
    echo "clang-format 14 is not installed: formatting was not checked"
    exit 77
    ;;
esac
find quant libshard manifest runtime-shim tools tests fixtures -name '*.cc' -o -name '*.h' | sort |
  xargs -r "$formatter" --dry-run --Werror --ferror-limit=3
