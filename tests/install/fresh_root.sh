#!/bin/bash
# Otherwise empty systems, made by debootstrap (minbase), and what users and developers do in them.
#
# In Debian 12 and 13: `make demo` as the first command, then `make test`, then the product and all
# tests compiled by clang. None of the three may print a warning, and no test may fail.
#
# In Debian 12 also the steps of docs/examples/Dockerfile: those of its first stage make the
# packages. In another root those of its last stage install them; then README's commands run,
# docs/examples/node.c is compiled against libmoepack-runtime-dev, and both are removed.
#
# Only root can do this, and it needs debootstrap and a mirror: exit 77 without. Takes hours.
# usage: fresh_root.sh ROOT
#   MOEPACK_DEBIAN_MIRROR   (http://deb.debian.org/debian)
#   MOEPACK_FRESH_SYSTEMS   (bookworm trixie); noble is Ubuntu 24.04, from archive.ubuntu.com
#   MOEPACK_FRESH_PACKAGES  a folder of packages made on bookworm: only install and try them
set -eu
root=$1 mirror=${MOEPACK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
systems=${MOEPACK_FRESH_SYSTEMS:-bookworm trixie}
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

# Debian's debootstrap knows neither Ubuntu's releases nor their keys.
# usage: strap SYSTEM DIRECTORY
strap() {
  case $1 in
    noble)
      debootstrap --no-check-gpg --variant=minbase --components=main,universe "$1" "$2" \
        http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
      ;;
    *) debootstrap --variant=minbase "$1" "$2" "$mirror" ;;
  esac
}

# Leaves SYSTEM.tar in the cache. usage: make_root SYSTEM
make_root() {
  [ ! -s "$1.tar" ] || return 0
  rm -rf made
  if ! strap "$1" made >debootstrap.log 2>&1; then
    grep -qiE 'failed getting release file|unable to|could not resolve|mknod' debootstrap.log &&
      skip "$(tail -n 1 debootstrap.log)"
    fail "$(cat debootstrap.log)"
  fi
  tar -C made -cf "$1.part" --exclude='./var/cache/apt/archives/*.deb' .
  mv "$1.part" "$1.tar"
  rm -rf made
}

# Unpacks SYSTEM as the root NAME, in which `inside` runs commands from now on.
# usage: begin SYSTEM NAME
begin() {
  fresh=$cache/$2
  rm -rf "$fresh"
  mkdir "$fresh"
  tar -C "$fresh" -xf "$1.tar"
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

# As logged, and a warning of a compiler is a failure. usage: clean LOG COMMAND...
clean() {
  logged "$@"
  ! grep -nE -m 20 ':[0-9]+: warning: ' "$1" || fail "expected no warning in $1"
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

# usage: compile SYSTEM
compile() {
  begin "$1" "compile-$1"
  mkdir "$fresh/source"
  tar -C "$fresh/source" --strip-components=1 -xf "$("$root/tools/install/source.sh" . tar)"
  logged "$1-apt.log" 'apt-get update && apt-get install -y --no-install-recommends make'
  clean "$1-demo.log" 'cd /source && make demo'
  clean "$1-test.log" 'cd /source && make test'
  grep -E '^[0-9]+ passed, 0 failed' "$1-test.log" | sed "s/^/$1: /"
  logged "$1-apt.log" 'cd /source && .ci/install-deps.sh check bench'
  clean "$1-clang.log" 'cd /source && cmake --preset release-clang &&
    cmake --build build/release-clang'
  [ "$1" != bookworm ] || packages_of_dockerfile
  end
}

packages_of_dockerfile() {
  steps=$(steps_of 1) || fail "$steps"
  logged packages.log "cd /source && $steps"
  rm -rf packages
  mkdir packages
  cp "$fresh"/source/build/release/packages/*.deb packages/
}

install_packages() {
  begin bookworm install
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
}

mkdir -p "$cache"
cd "$cache"
rm -f ./*.log
if [ -n "${MOEPACK_FRESH_PACKAGES-}" ]; then
  rm -rf packages
  mkdir packages
  cp "$MOEPACK_FRESH_PACKAGES"/*.deb packages/
  make_root bookworm
  install_packages
  exit
fi
for system in $systems; do
  make_root "$system"
  compile "$system"
done
case " $systems " in *" bookworm "*) install_packages ;; esac
