#!/bin/sh
# Installs what package-lock.json names into build/peer, for all build trees of this checkout, and
# links node_modules there; does nothing if that lock was installed before. Not here, because the
# tests of the tree check every file below tests/. Exit 77 (skipped) if Node 20, npm or the registry
# is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$here/../../build/peer

skip() {
  echo "NOT TESTED WITH LLAMA.CPP: $1"
  exit 77
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is not installed"
node_version=$(node --version)
major=${node_version#v}
[ "${major%%.*}" -ge 20 ] || skip "it needs Node 20, found $node_version"
machine=$(uname -sm)
[ "$machine" = "Linux x86_64" ] || skip "its libraries are for Linux x86_64, this is $machine"

mkdir -p "$modules"
cd "$modules"
exec 9<.
flock 9  # two build trees may test at the same time
# The stamp is a copy of the lock file that node_modules was installed from.
if ! cmp -s "$here/package-lock.json" installed.json; then
  rm -f installed.json
  cp "$here/package.json" "$here/package-lock.json" .
  if ! npm ci --omit=optional --ignore-scripts --no-audit --no-fund --fetch-retries 1 \
      >npm.log 2>&1; then
    npm ping --fetch-retries 0 >/dev/null 2>&1 || skip "the npm registry cannot be reached"
    cat npm.log
    exit 1
  fi
  cp package-lock.json installed.json
fi
# llama.cpp's AMX kernels fail with an assertion on DeepSeek models of Q8_0 (ggml-backend.cpp,
# cur_backend_id). Without them it uses those for AVX-512 on such a machine, as on all others.
rm -f node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-cpu-sapphirerapids.so
ln -sfn ../../build/peer/node_modules "$here/node_modules"
