#!/bin/bash
# The packages for 64-bit ARM, compiled here and run in an emulator. Compiles everything once more.
# usage: arm64_packages.sh ROOT   (77: no cross compiler, emulator or package mirror)
set -eu
root=$1
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $program >/dev/null || {
    echo "no package for ARM was made: there is no $program"
    exit 77
  }
done
"$root/tools/install/cross_root.sh" arm64 "$root/build/root-arm64"
make -C "$root" packages ARCH=arm64
exec "$root/tests/install/debian_packages.sh" "$root" "$root/build/arm64" \
  "$root/build/arm64/debian-test"
