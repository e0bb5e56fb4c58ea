#!/bin/sh
# Validates the manifests of docs/examples/scale-out against the API of Kubernetes (models generated
# from its OpenAPI document, from npm), and runs their commands with the variables that a pod has.
# Exit 77 (skipped) if Node 20, npm or the registry is missing.
# usage: kubernetes.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is not installed"
node_version=$(node --version)
major=${node_version#v}
[ "${major%%.*}" -ge 20 ] || skip "it needs Node 20, found $node_version"

modules=$work.npm
mkdir -p "$modules"
cd "$modules"
if ! cmp -s "$root/tests/scale-out/package-lock.json" installed.json; then
  rm -f installed.json
  cp "$root/tests/scale-out/package.json" "$root/tests/scale-out/package-lock.json" .
  if ! npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 1 >npm.log 2>&1; then
    npm ping --fetch-retries 0 >/dev/null 2>&1 || skip "the npm registry cannot be reached"
    cat npm.log
    exit 1
  fi
  cp package-lock.json installed.json
fi
cp "$root/tests/scale-out/manifest.mjs" .
prepare
examples=$root/docs/examples/scale-out
for name in kubernetes kubernetes-join; do
  node "$modules/manifest.mjs" "$examples/$name.yaml" "SOURCE=$SOURCE" "GROUP_COUNT=$GROUP_COUNT" \
    "OUT=$OUT" >"$name.sh"
done
sh -eu kubernetes.sh >build.log 2>&1 || { cat build.log; exit 1; }
grep -q 'note: task 15 of 16, by JOB_COMPLETION_INDEX' build.log || { cat build.log; exit 1; }
sh -eu kubernetes-join.sh >join.log 2>&1 || { cat join.log; exit 1; }
compare 16
