#!/bin/bash
# The Debian packages: their fields are right, they are the same bytes each time, and the program in
# them runs README's commands: in an emulator if it is for another architecture. They are compressed
# with gzip here, which takes a tenth of the time.
# usage: debian_packages.sh ROOT BUILD_DIR WORK_DIR
set -eu
root=$1 build=$2 work=$3
fail() {
  echo "$1"
  exit 1
}
for tool in dpkg-deb dpkg-shlibdeps file cpack; do
  command -v $tool >/dev/null || {
    echo "no package was made: $tool is not installed"
    exit 77
  }
done
rm -rf "$work"
mkdir -p "$work"
cd "$work"

export SOURCE_DATE_EPOCH=1700000000
for run in first second; do
  cpack --config "$build/CPackConfig.cmake" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip \
    -B "$work/$run" >cpack.log 2>&1 || fail "$(cat cpack.log)"
done
ls first/*.deb >made
[ "$(wc -l <made)" = 2 ] || fail "expected two packages, found $(cat made)"
for package in first/*.deb; do
  cmp "$package" "second/${package#first/}" || fail "$package: expected the same bytes twice"
done

# Of another architecture: with the libraries of cross_root.sh.
of_config() {
  sed -n "s/^set($1 \"\\(.*\\)\")/\\1/p" "$build/CPackConfig.cmake"
}
architecture=$(of_config CPACK_DEBIAN_PACKAGE_ARCHITECTURE)
cross_root=$(dirname "$(of_config CPACK_PROJECT_CONFIG_FILE)")
[ -n "$architecture" ] || { architecture=$(dpkg --print-architecture) cross_root=; }

# usage: expect PACKAGE FIELD PATTERN
expect() {
  found=$(dpkg-deb -f "$1" "$2")
  echo "$found" | grep -qE -- "$3" || fail "$1: $2: expected $3, found '$found'"
}
program=$(ls first/moepack_*.deb) library=$(ls first/libmoepack-runtime-dev_*.deb)
expect "$program" Package '^moepack$'
expect "$library" Package '^libmoepack-runtime-dev$'
for package in "$program" "$library"; do
  expect "$package" Version '^[0-9]+\.[0-9]+\.[0-9]+$'
  expect "$package" Architecture "^$architecture$"
  expect "$package" Maintainer '^.+ <.+@.+>$'
  expect "$package" Installed-Size '^[0-9]+$'
  expect "$package" Description '^ [A-Z]'
done
for dependency in 'libc6 \(>= ' 'libstdc\+\+6 \(>= ' libssl3 libhwy1 libpcre2-8-0 libsentencepiece \
  libxxhash0 libzstd1; do
  expect "$program" Depends "(^|, )$dependency"
done
expect "$program" Recommends libcurl4
expect "$library" Depends 'libsentencepiece-dev, libhwy-dev.*libstdc\+\+'

dpkg-deb -x "$program" root
dpkg-deb -x "$library" root
find root ! -type d -printf '/%P\n' | sort >files
grep -vE '^/usr/(bin|include|lib|share)/' files && fail "expected files below /usr only"
for file in /usr/bin/moepack /usr/include/moepack_runtime.h /usr/share/man/man1/moepack.1 \
  /usr/share/doc/moepack/copyright /usr/share/doc/libmoepack-runtime-dev/copyright; do
  grep -qx "$file" files || fail "expected $file"
done
ln -s "$root/fixtures" fixtures
unset SOURCE_DATE_EPOCH # builds write it into distributions
export PATH=$work/root/usr/bin:$PATH
if [ -n "$cross_root" ]; then
  file -b root/usr/bin/moepack | grep -q 'ELF 64-bit.* ARM aarch64' ||
    fail "$(file root/usr/bin/moepack): expected a program for 64-bit ARM"
  mkdir bin
  printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" "%s" "$@"\n' "$cross_root" \
    "$work/root/usr/bin/moepack" >bin/moepack
  chmod +x bin/moepack
  export PATH=$work/bin:$PATH
fi
version=$(dpkg-deb -f "$program" Version)
[ "$(moepack --version)" = "moepack $version" ] ||
  fail "expected moepack $version, found $(moepack --version)"
grep -qx "Version: $version" $(find . -name moepack.pc) ||
  fail "expected version $version in moepack.pc"
"$root/tests/install/readme_demo.sh" "$root"
