#!/bin/bash
# What `cmake --install` leaves in a prefix, which is then moved: the program runs, and the example
# is built against the library by find_package and by pkg-config, and prints what `run` prints.
# usage: prefix.sh ROOT BUILD_DIR WORK_DIR
set -eu
root=$1 build=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() {
  echo "$1"
  exit 1
}

cmake --install "$build" --prefix "$work/first" >install.log || fail "$(cat install.log)"
mv first moved
prefix=$work/moved
libraries=$(dirname "$(find "$prefix" -name 'libmoepack-runtime.*' | head -n 1)")
documents=$prefix/share/doc
examples=$documents/libmoepack-runtime-dev/examples
for file in "$prefix"/bin/moepack "$prefix"/include/moepack_runtime.h \
  "$prefix"/share/man/man1/moepack-build.1 "$prefix"/share/bash-completion/completions/moepack \
  "$libraries"/pkgconfig/moepack.pc "$libraries"/cmake/moepack/moepack-config.cmake \
  "$documents"/moepack/copyright "$documents"/moepack/sbom.spdx.json; do
  [ -s "$file" ] || fail "$file: expected a file, found none"
done
if grep -rIl -e "$root" -e "$work/first" "$libraries"/pkgconfig "$libraries"/cmake \
  "$documents"; then
  fail "expected files without the path of the build"
fi

"$prefix/bin/moepack" build "$root/fixtures/tiny-moe" --groups 3 -o out --no-verify >/dev/null
expected=$("$prefix/bin/moepack" run out --group 1 --prompt 'int main(' -n 16)
# usage: says PROGRAM
says() {
  said=$("$1" out 1 'int main(')
  [ "${said%"$expected"}" != "$said" ] || fail "$1: expected '$expected' at the end, found '$said'"
}

cmake -S "$examples" -B node -DCMAKE_PREFIX_PATH="$prefix" \
  >cmake.log 2>&1 || fail "$(cat cmake.log)"
cmake --build node >cmake.log 2>&1 || fail "$(cat cmake.log)"
says node/node
# A later major version has a different interface.
sed 's/moepack [0-9.]* REQUIRED/moepack 99.0 REQUIRED/' "$examples/CMakeLists.txt" >CMakeLists.txt
cp "$examples/node.c" .
if cmake -S . -B later -DCMAKE_PREFIX_PATH="$prefix" >cmake.log 2>&1; then
  fail "expected version 99.0 to be refused"
fi
grep -q 'version: 1\.' cmake.log || fail "$(cat cmake.log)"

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$libraries/pkgconfig
  # shellcheck disable=SC2046  # one word per option
  cc -std=c99 $(pkg-config --cflags moepack) node.c $(pkg-config --libs moepack) -o by-pkg-config
  says ./by-pkg-config
else
  echo "pkg-config is not installed: it was not tried"
fi
