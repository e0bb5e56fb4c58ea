#!/bin/bash
# The program and the archive of the runtime are the same bytes if they are built in another
# directory, without ccache and without the tests. Compiles everything once more, or only OBJECTs,
# which are named as files of the build folder.
# usage: two_builds.sh ROOT BUILD_DIR [OBJECT ...]   (a build of the preset release)
set -eu
root=$1 build=$2
shift 2
[ $# -gt 0 ] || set -- moepack runtime-shim/libmoepack-runtime.a
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
"$root/tests/install/copy_tree.sh" "$root" "$other"
cd "$other"
export CCACHE_DISABLE=1
# What was chosen for the first build; without it, both choose alike.
chosen=$(sed -nE 's/^((MOEPACK_CUDA|CMAKE_CUDA_ARCHITECTURES):[A-Z]+=.+)/-D\1/p' \
  "$build/CMakeCache.txt")
# shellcheck disable=SC2086  # one word per option
cmake --preset release $chosen -DMOEPACK_TESTS=OFF >build.log 2>&1 &&
  cmake --build build/release -j "$(nproc)" --target "$@" >>build.log 2>&1 || {
  tail -n 50 build.log
  exit 1
}
for file in "$@"; do
  cmp "$build/$file" "build/release/$file"
done
cd build/release && sha256sum "$@"
