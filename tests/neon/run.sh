#!/bin/sh
# Compiles quant/ and same_bytes.cc for 64-bit ARM and runs them in an emulator. Highway's NEON
# target needs the crypto extension with GCC. Debian: g++-aarch64-linux-gnu, qemu-user.
# usage: run.sh ROOT SCRATCH
set -eu
root=$1
scratch=$2/neon
compiler=${MOEPACK_NEON_CXX:-aarch64-linux-gnu-g++}
for program in "$compiler" qemu-aarch64; do
  if ! command -v "$program" > /dev/null; then
    echo "skipped: kernels not tried on ARM: there is no $program"
    exit 77
  fi
done
mkdir -p "$scratch"
for file in $(find "$root/quant" -name '*.cc') "$root"/tests/neon/same_bytes.cc; do
  "$compiler" -march=armv8-a+crypto -std=c++20 -O1 -DNDEBUG -ffp-contract=off -Wall -Wextra \
    -Wshadow -Wconversion -Wno-sign-conversion -Werror -DHWY_COMPILE_ONLY_STATIC \
    -idirafter /usr/include -I"$root" -c "$file" -o "$scratch/$(basename "$file" .cc).o"
done
"$compiler" -static "$scratch"/*.o -o "$scratch/same_bytes"
qemu-aarch64 "$scratch/same_bytes"
