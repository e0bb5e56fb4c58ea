#!/bin/bash
# The packages in an otherwise empty Debian: a root made by debootstrap (minbase), in which the
# steps of the last stage of docs/examples/Dockerfile run unchanged, then README's commands,
# docs/examples/node.c against libmoepack-runtime-dev, and the removal. Only root can do this, and
# it needs debootstrap and a mirror: exit 77 without.
# usage: fresh_root.sh ROOT BUILD_DIR [MIRROR]
set -eu
root=$1 build=$2 mirror=${3:-http://deb.debian.org/debian}
cache=$root/build/debootstrap
skip() {
  echo "no fresh root was made: $1"
  exit 77
}
fail() {
  echo "$1"
  exit 1
}
[ "$(id -u)" = 0 ] || skip "only root can"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
if [ "${MOEPACK_OWN_MOUNTS-}" != 1 ]; then # mounts below it disappear with this process
  unshare -m true 2>/dev/null || skip "mounts are not allowed here"
  MOEPACK_OWN_MOUNTS=1 exec unshare -m "$0" "$@"
fi

mkdir -p "$cache"
cd "$cache"
if [ ! -s bookworm.tar ]; then
  rm -rf made
  if ! debootstrap --variant=minbase bookworm made "$mirror" >debootstrap.log 2>&1; then
    grep -qiE 'failed getting release file|unable to|could not resolve|mknod' debootstrap.log &&
      skip "$(tail -n 1 debootstrap.log)"
    fail "$(cat debootstrap.log)"
  fi
  tar -C made -cf bookworm.part --exclude='./var/cache/apt/archives/*.deb' .
  mv bookworm.part bookworm.tar
  rm -rf made
fi
fresh=$cache/fresh
rm -rf "$fresh"
mkdir "$fresh"
tar -C "$fresh" -xf bookworm.tar
cp /etc/resolv.conf "$fresh/etc/"
mount -t proc proc "$fresh/proc"

# usage: inside COMMAND...
inside() {
  chroot "$fresh" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

cpack --config "$build/CPackConfig.cmake" -B "$cache/packages" >cpack.log 2>&1 ||
  fail "$(cat cpack.log)"
cp packages/*.deb "$fresh/tmp/"
mkdir "$fresh/library" "$fresh/source" "$fresh/work"
mv "$fresh"/tmp/libmoepack-runtime-dev_*.deb "$fresh/library/"
cp -r "$root/README.md" "$root/fixtures" "$fresh/source/"
cp "$root/tests/install/readme_demo.sh" "$fresh/source/"
ln -s ../source/fixtures "$fresh/work/fixtures"

steps=$(awk '/^FROM/ { stage++ } stage == 2' "$root/docs/examples/Dockerfile" |
  sed -e ':join' -e '/\\$/N; s/\\\n *//; tjoin' | sed -n 's/^RUN //p')
[ -n "$steps" ] || fail "expected RUN in the last stage of the Dockerfile"
inside sh -ec "$steps" >install.log 2>&1 || fail "$(cat install.log)"
inside sh -ec 'cd /work && /source/readme_demo.sh /source'
inside sh -ec 'test -s /usr/share/bash-completion/completions/moepack; test -x /usr/bin/moepack'

inside sh -ec 'apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
  pkg-config /library/*.deb' >>install.log 2>&1 || fail "$(cat install.log)"
inside sh -ec 'cd /work
  cc -std=c99 $(pkg-config --cflags moepack) \
    /usr/share/doc/libmoepack-runtime-dev/examples/node.c $(pkg-config --libs moepack) -o node
  ./node out 1 "int main(" >node.txt
  moepack run out --group 1 --prompt "int main(" -n 16 >run.txt 2>/dev/null
  tail -n "$(wc -l <run.txt)" node.txt | cmp - run.txt'

inside sh -ec 'apt-get remove -y moepack libmoepack-runtime-dev' >>install.log 2>&1 ||
  fail "$(cat install.log)"
left=$(find "$fresh/usr" -name '*moepack*' ! -path '*/info/*')
[ -z "$left" ] || fail "expected nothing after the removal, found $left"
umount "$fresh/proc"
rm -rf "$fresh"
