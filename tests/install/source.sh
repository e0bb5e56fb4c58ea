#!/bin/bash
# The source archive: it has the man pages and completions, it makes itself again byte by byte, and
# what is in it is configured and checked where there is no git.
# usage: source.sh ROOT WORK_DIR
set -eu
root=$1 work=$2
rm -rf "$work"
mkdir -p "$work/bin" "$work/unpacked"
cd "$work"
fail() {
  echo "$1"
  exit 1
}
archive=$("$root/tools/install/source.sh" "$work/first" tar)
version=$(sed -n 's/^project(moepack VERSION \([0-9.]*\) .*/\1/p' "$root/CMakeLists.txt")
[ "$archive" = "$work/first/moepack-$version.tar" ] || fail "expected another name than $archive"
tar -tf "$archive" >files
grep -vx "moepack-$version/.*" files && fail "expected every file in moepack-$version"
for file in CMakeLists.txt .ci/packages.txt share/man/man1/moepack-build.1 \
  share/bash-completion/completions/moepack share/zsh/site-functions/_moepack \
  share/fish/vendor_completions.d/moepack.fish; do
  grep -qx "moepack-$version/$file" files || fail "expected $file in the archive, found none"
done

tar -C unpacked -xf "$archive"
tree=$work/unpacked/moepack-$version
printf '#!/bin/sh\necho "git was called: $*" >&2\nexit 128\n' >bin/git
chmod +x bin/git
export PATH=$work/bin:$PATH
cmp "$("$tree/tools/install/source.sh" "$work/second" tar)" "$archive"
for script in layout.sh links.sh wrapped.sh include_order.sh; do
  "$tree/tests/tree/$script" "$tree" >log 2>&1 || fail "$script: $(cat log)"
done
cmake -S "$tree" -B build -DMOEPACK_TESTS=OFF >log 2>&1 || fail "$(cat log)"
grep -q "^CMAKE_PROJECT_VERSION:STATIC=$version$" build/CMakeCache.txt ||
  fail "expected version $version in CMakeCache.txt"
rm -rf first second unpacked build
