#!/bin/sh
# Builds a distribution of fixtures/tiny-moe, assembles a node from it, and validates
# distribution.json and moepack_node.json with ajv from npm.
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
cp "$root/tests/schema/check.mjs" .

"$moepack" build "$root/fixtures/tiny-moe" --groups 3 \
  --overlay-file "$root/fixtures/tiny-overlay.json" -o "$work/tiny-3" --force >/dev/null
node check.mjs "$root/manifest/document/distribution.schema.json" "$work/tiny-3/distribution.json"
"$moepack" assemble "$work/tiny-3" --group 1 -o "$work/node" --force >/dev/null
node check.mjs "$root/manifest/document/node.schema.json" "$work/node/moepack_node.json"

# Refitted, with what eval measured.
"$moepack" build "$root/fixtures/tiny-moe" --groups 2 --refit \
  --text "$root/fixtures/texts/manual.md" --context 64 --least-tokens 20 --steps ridge \
  -o "$work/refitted" --force >/dev/null 2>&1
"$moepack" eval "$work/refitted" --against "$root/fixtures/tiny-moe" \
  --text "$root/fixtures/tiny-moe/NOTE.md" --generate 0 --record >/dev/null
for key in refit derived quality; do
  grep -q "\"$key\": " "$work/refitted/distribution.json" || {
    echo "refitted/distribution.json: expected $key, found none"
    exit 1
  }
done
node check.mjs "$root/manifest/document/distribution.schema.json" "$work/refitted/distribution.json"
"$moepack" assemble "$work/refitted" --group 1 -o "$work/refitted-node" --force >/dev/null
node check.mjs "$root/manifest/document/node.schema.json" "$work/refitted-node/moepack_node.json"
