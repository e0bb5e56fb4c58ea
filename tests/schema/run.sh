#!/bin/sh
# Makes distributions that together have every optional field of the format, and nodes of them, and
# validates distribution.json and moepack_node.json with ajv from npm (sections.mjs); then breaks
# some of them and expects the schema to refuse that (check.mjs).
# Exit 77 (skipped) if Node 20, npm or the registry is missing.
# usage: run.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1
moepack=$2
work=$3

skip() {
  echo "the schema was not checked: $1"
  exit 77
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is not installed"
node_version=$(node --version)
major=${node_version#v}
[ "${major%%.*}" -ge 20 ] || skip "it needs Node 20, found $node_version"

mkdir -p "$work"
cd "$work"
# The stamp is a copy of the lock file that node_modules was installed from.
if ! cmp -s "$root/tests/schema/package-lock.json" installed.json; then
  rm -f installed.json
  cp "$root/tests/schema/package.json" "$root/tests/schema/package-lock.json" .
  if ! npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 1 >npm.log 2>&1; then
    npm ping --fetch-retries 0 >/dev/null 2>&1 || skip "the npm registry cannot be reached"
    cat npm.log
    exit 1
  fi
  cp package-lock.json installed.json
fi
cp "$root/tests/schema/check.mjs" "$root/tests/schema/sections.mjs" .

# The outputs go into a directory of their own, and the modules are found above it.
rm -rf outputs
mkdir outputs
cd outputs
node ../sections.mjs "$root" "$moepack"
for name in split refitted; do
  node ../check.mjs "$root/manifest/document/distribution.schema.json" "$name/distribution.json"
done
for name in node refitted-node; do
  node ../check.mjs "$root/manifest/document/node.schema.json" "$name/moepack_node.json"
done
