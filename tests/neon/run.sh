#!/bin/sh
# Compiles quant/ and same_bytes.cc for 64-bit ARM and runs them in an emulator. Highway's NEON
# target needs the crypto extension with GCC. The compiler also checks the runtime's kernels for a
# machine with SVE, where CMake compiles them without the targets DISABLED. Debian:
# g++-aarch64-linux-gnu, qemu-user.
# usage: run.sh ROOT SCRATCH DISABLED
set -eu
root=$1
scratch=$2/neon
disabled=$3
compiler=${MOEPACK_NEON_CXX:-aarch64-linux-gnu-g++}
for program in "$compiler" qemu-aarch64; do
  if ! command -v "$program" > /dev/null; then
    echo "skipped: kernels not tried on ARM: there is no $program"
    exit 77
  fi
done
mkdir -p "$scratch"
flags="-std=c++20 -O1 -DNDEBUG -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion
  -Wno-sign-conversion -Werror -idirafter /usr/include -I$root"
for file in $(grep -rl 'hwy/foreach_target' --include='*.cc' "$root/runtime-shim") \
    "$root"/quant/legacy/q4_0.cc; do
  # shellcheck disable=SC2086
  "$compiler" -march=armv8.2-a+sve+crypto $flags "-DHWY_DISABLED_TARGETS=$disabled" \
    -fsyntax-only "$file"
done
for file in $(find "$root/quant" -name '*.cc') "$root"/tests/neon/same_bytes.cc; do
  # shellcheck disable=SC2086
  "$compiler" -march=armv8-a+crypto $flags -DHWY_COMPILE_ONLY_STATIC -c "$file" \
    -o "$scratch/$(basename "$file" .cc).o"
done
"$compiler" -static "$scratch"/*.o -o "$scratch/same_bytes"
qemu-aarch64 "$scratch/same_bytes"
