#!/bin/sh
# The checks of this folder on small trees: a clean one passes, and each planted fault is found.
# usage: self_test.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# A clean tree with the folders that the checks visit.
fresh() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree" && cd "$work/tree"
  mkdir -p quant libshard/base libshard/model libshard/check libshard/convert libshard/sizing \
    manifest/node runtime-shim tools tests fixtures \
    docs .ci
  cp "$here/../../.ci/layers.txt" .ci
  touch CMakeLists.txt README.md CHANGELOG.md LICENSE Makefile CMakePresets.json .clang-format \
    .clang-tidy .gitignore
  printf '#include "libshard/base/a.h"\n#include "quant/b.h"\n#include <string>\n' \
    >libshard/model/a.cc
  printf 'All of `b.md`: [here](b.md#part), [there](https://example.org).\n' >docs/a.md
  touch fixtures/README.md
  echo '# Part' >docs/b.md
}

passes() {
  if ! "$here/$1" "$work/tree" >"$work/out" 2>&1; then
    echo "$1: expected to pass on a clean tree, found:" && cat "$work/out"
    status=1
  fi
}

# fails SCRIPT TEXT: the script must fail and say TEXT.
fails() {
  if "$here/$1" "$work/tree" >"$work/out" 2>&1; then
    echo "$1: expected to fail with \"$2\", found success"
    status=1
  elif ! grep -qF -- "$2" "$work/out"; then
    echo "$1: expected \"$2\", found:" && cat "$work/out"
    status=1
  fi
}

lines() {
  awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) print text }'
}

fresh
for script in include_order.sh budgets.sh forbidden.sh layout.sh links.sh wrapped.sh; do
  passes $script
done

fresh && cd libshard/base
echo '#include "manifest/m.h"' >up.cc && fails include_order.sh libshard/base/up.cc:1
echo '#include "libshard/model/m.h"' >up.cc && fails include_order.sh libshard/base/up.cc:1
echo '#include "a.h"' >up.cc && fails include_order.sh "found a.h"
echo '#include <quant/b.h>' >up.cc && fails include_order.sh "found quant/b.h"
fresh
echo '#include "libshard/replay/r.h"' >libshard/sizing/f.cc
fails include_order.sh libshard/sizing/f.cc:1
fresh && mkdir -p manifest/document tools/options
echo '#include "libshard/remote/r.h"' >manifest/document/d.cc
fails include_order.sh manifest/document/d.cc:1
fresh && mkdir -p tools/options && echo '#include "libshard/remote/r.h"' >tools/options/o.cc
passes include_order.sh
fresh && echo '#include "tests/t.h"' >tools/t.cc && fails include_order.sh "found tests/t.h"
fresh && echo '#include "quant/a.h"' >fixtures/f.cc && fails include_order.sh fixtures/f.cc:1
fresh && echo >libshard/loose.cc && fails include_order.sh "libshard/loose.cc: expected a folder"

fresh && lines 601 '// text' >quant/long.cc && fails budgets.sh "at most 600 lines, found 601"
fresh && lines 251 '// text' >quant/long.h && fails budgets.sh "at most 250 lines, found 251"
fresh && { echo '// Long because it is a table.' && lines 600 '// text'; } >quant/long.cc
passes budgets.sh
fresh && lines 600 '// text' >quant/long.cc && passes budgets.sh
fresh && { printf 'int F(int a,\n      int b) {\n' && lines 58 '  G();' && echo '}'; } >quant/f.cc
fails budgets.sh "quant/f.cc:1: expected a function of at most 60 lines, found 61"
fresh && { echo 'int F() {' && lines 58 '  G();' && echo '}'; } >quant/f.cc && passes budgets.sh
fresh && { echo 'const int kTable[] = {' && lines 90 '  1,' && echo '};'; } >quant/f.cc
passes budgets.sh
fresh && printf '// %0100d\n' 0 >tools/wide.cc && fails budgets.sh "tools/wide.cc:1"

fresh && printf 'ConfigKeys k = {"a", "b"};\n' >libshard/model/config_fields.h
touch libshard/model/layer_fields.h && passes config_fields.sh
echo '  config.Find({"b"});' >libshard/check/c.cc && fails config_fields.sh libshard/check/c.cc:1
echo '  config.U32({"c", "d"});' >libshard/check/c.cc
fails config_fields.sh libshard/check/c.cc:1
echo 'ConfigKeys k = {"b"};' >libshard/model/layer_fields.h
fails config_fields.sh "found twice: b"

fresh && echo 'add_compile_options(-march=native)' >quant/CMakeLists.txt
fails forbidden.sh quant/CMakeLists.txt:1
fresh && echo '# never -ffast-math' >CMakeLists.txt && passes forbidden.sh
fresh && echo '// TODO: later' >tools/later.cc && fails forbidden.sh tools/later.cc:1
fresh && echo '#include <regex>' >libshard/r.cc && fails forbidden.sh libshard/r.cc:1
fresh && echo 'std::unordered_set<std::string_view> names;' >tools/t.cc
fails forbidden.sh tools/t.cc:1
fresh && echo '  std::exit(1);' >manifest/e.cc && fails forbidden.sh manifest/e.cc:1
fresh && echo "  InputFile::Open(root / name);" >manifest/o.cc &&
  fails forbidden.sh "through its SourceTree"
fresh && echo '  fs::path whole = fs::canonical(path, error);' >libshard/c.cc
fails forbidden.sh libshard/c.cc:1
fresh && echo '  std::printf("x");' >libshard/p.cc && fails forbidden.sh libshard/p.cc:1
fresh && touch libshard/utils.h && fails forbidden.sh libshard/utils.h

fresh && mkdir scripts && fails layout.sh "scripts:"
fresh && rm LICENSE && fails layout.sh "LICENSE: expected"
fresh && mkdir build && passes layout.sh
fresh && rm docs/b.md && fails links.sh "link to b.md"
fresh && echo '# Another part' >docs/b.md && fails links.sh "link to b.md#part: expected a heading"
fresh && printf '[above](#x)\n' >>docs/b.md && fails links.sh "docs/b.md: link to #x: expected"
fresh && echo 'See `libshard/model/a.cc` and `libshard/*/a.cc`.' >>docs/b.md && passes links.sh
fresh && echo 'See `libshard/model/none.cc`.' >>docs/b.md
fails links.sh "b.md: libshard/model/none.cc"

fresh && printf 'b %0100d\n' 0 >docs/b.md && fails wrapped.sh "docs/b.md:1: expected at most 100"
fresh && printf -- '- b %0100d\n' 0 >README.md && fails wrapped.sh README.md:1
fresh && printf '%0101d\n| b %0100d |\n```\nb %0100d\n```\n' 0 0 0 >docs/b.md && passes wrapped.sh

cd "$work"
echo 'moepack help' >cli.md
printf '#!/bin/sh\necho moepack help --markdown\n' >moepack && chmod +x moepack
if "$here/cli_reference.sh" --check cli.md ./moepack >/dev/null; then
  echo "cli_reference.sh: expected to find a stale page, found success"
  status=1
fi
"$here/cli_reference.sh" --write cli.md ./moepack
"$here/cli_reference.sh" --check cli.md ./moepack || status=1
sed '1s/.*/# My own head/' cli.md >edited.md
"$here/cli_reference.sh" --check edited.md ./moepack || status=1
"$here/cli_reference.sh" --write edited.md ./moepack
grep -q '^# My own head' edited.md || status=1
echo 'moepack help added' >>cli.md
if "$here/cli_reference.sh" --check cli.md ./moepack >/dev/null; then
  echo "cli_reference.sh: expected to find an added line, found success"
  status=1
fi
if echo verify | "$here/names_in_docs.sh" cli.md >/dev/null; then
  echo "names_in_docs.sh: expected to miss verify, found success"
  status=1
fi
echo help | "$here/names_in_docs.sh" cli.md >/dev/null || status=1
if "$here/names_in_docs.sh" cli.md </dev/null >/dev/null; then
  echo "names_in_docs.sh: expected to fail without names, found success"
  status=1
fi
exit $status
