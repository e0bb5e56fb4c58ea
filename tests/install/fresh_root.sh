#!/bin/bash
# An otherwise empty Debian, made by debootstrap (minbase), and what users do in it. In one root
# `make demo` runs as the first command, then the steps of the first stage of
# docs/examples/Dockerfile. In another, the steps of its last stage install the packages that the
# first one made; then README's commands run, docs/examples/node.c is compiled against
# libmoepack-runtime-dev, and both are removed. Only root can do this, and it needs debootstrap and
# a mirror: exit 77 without. Compiles everything once more.
# usage: fresh_root.sh ROOT   (MOEPACK_DEBIAN_MIRROR: http://deb.debian.org/debian)
set -eu
root=$1 mirror=${MOEPACK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
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

# Makes the root NAME, in which `inside` runs commands from now on.
begin() {
  fresh=$cache/$1
  rm -rf "$fresh"
  mkdir "$fresh"
  tar -C "$fresh" -xf bookworm.tar
  cp /etc/resolv.conf "$fresh/etc/"
  mount -t proc proc "$fresh/proc"
}

# usage: inside COMMAND...
inside() {
  chroot "$fresh" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

# usage: logged LOG COMMAND...   (in the root; the log is shown where it fails)
logged() {
  log=$1
  shift
  inside sh -ec "$*" >>"$log" 2>&1 || fail "$(tail -n 200 "$log")"
}

# What RUN says in a stage of the Dockerfile. usage: steps_of STAGE
steps_of() {
  awk -v wanted="$1" '/^FROM/ { stage++ } stage == wanted' "$root/docs/examples/Dockerfile" |
    sed -e ':join' -e '/\\$/N; s/\\\n *//; tjoin' | sed -n 's/^RUN //p' | grep . ||
    fail "expected RUN in stage $1 of the Dockerfile"
}

end() {
  umount "$fresh/proc"
  rm -rf "$fresh"
}

rm -f ./*.log
begin compile
mkdir "$fresh/source"
"$root/tests/install/copy_tree.sh" "$root" "$fresh/source"
logged demo.log 'apt-get update && apt-get install -y --no-install-recommends make'
logged demo.log 'cd /source && make demo'
steps=$(steps_of 1) || fail "$steps"
logged packages.log "cd /source && $steps"
rm -rf packages
mkdir packages
cp "$fresh"/source/build/release/packages/*.deb packages/
end

begin install
mkdir "$fresh/library" "$fresh/source" "$fresh/work"
cp packages/moepack_*.deb "$fresh/tmp/"
cp packages/libmoepack-runtime-dev_*.deb "$fresh/library/"
cp -r "$root/README.md" "$root/fixtures" "$fresh/source/"
cp "$root/tests/install/readme_demo.sh" "$fresh/source/"
ln -s ../source/fixtures "$fresh/work/fixtures"
steps=$(steps_of 2) || fail "$steps"
logged install.log "$steps"
inside sh -ec 'cd /work && /source/readme_demo.sh /source'
inside sh -ec 'test -s /usr/share/bash-completion/completions/moepack; test -x /usr/bin/moepack'

logged install.log 'apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
  pkg-config /library/*.deb'
inside sh -ec 'cd /work
  cc -std=c99 $(pkg-config --cflags moepack) \
    /usr/share/doc/libmoepack-runtime-dev/examples/node.c $(pkg-config --libs moepack) -o node
  ./node out 1 "int main(" >node.txt
  moepack run out --group 1 --prompt "int main(" -n 16 >run.txt 2>/dev/null
  tail -n "$(wc -l <run.txt)" node.txt | cmp - run.txt'

logged install.log 'apt-get remove -y moepack libmoepack-runtime-dev'
left=$(find "$fresh/usr" -name '*moepack*' ! -path '*/info/*')
[ -z "$left" ] || fail "expected nothing after the removal, found $left"
end
