#!/bin/sh
# Unpacks into DIR what a cross build links with: the libraries of the section [build] of
# .ci/packages.txt with all that they depend on, as this release of Debian has them for ARCH. apt
# downloads them and keeps its own state below DIR, and nothing is installed: neither dpkg's
# database nor the sources of apt change, and root is not needed. What comes with the cross compiler
# (headers and archives of C and C++) is left out. In DIR, too:
#   DEBIAN/shlibs, DEBIAN/symbols   for dpkg-shlibdeps, which takes DIR for a package being built
#   dpkg-shlibdeps, cpack.cmake     call it so
#   var/lib/dpkg                    for dpkg-query --admindir
# usage: cross_root.sh ARCH DIR   (77: not on Debian, or no mirror)
#   MOEPACK_DEBIAN_MIRROR   (http://deb.debian.org/debian)
set -eu
arch=$1
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -f "$here/$arch.cmake" ]; then
  echo "ARCH: expected arm64, found $arch" >&2
  exit 2
fi
mkdir -p "$2"
root=$(cd "$2" && pwd)
list=$here/../../.ci/packages.txt
mirror=${MOEPACK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
release=$(. /etc/os-release && echo "$ID ${VERSION_CODENAME-}")
case $release in
  'debian '?*) release=${release#debian } ;;
  *)
    echo "packages for $arch: expected Debian to build on, found ${release% }" >&2
    exit 77
    ;;
esac
packages=$(awk '
  { sub(/#.*/, "") }
  /^\[/ { take = index($0, "[build]"); next }
  take && $1 ~ /-dev$/ && $1 !~ /^lib(gtest|gmock)-/ { print $1 }' "$list")
stamp=$(echo "$release $arch" $packages)
if [ "$(cat "$root/made-for" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial" "$root/DEBIAN" \
  "$root/usr/lib" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
ln -s usr/lib "$root/lib"
key=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in "$mirror $release" "$mirror $release-updates" "$mirror-security $release-security"; do
  echo "deb [signed-by=$key] $suite main"
done >"$root/apt/sources"
: >"$root/apt/status"
apt() {
  apt-get -q -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
    -o Dir::Etc::Parts=/dev/null \
    -o Dir::Etc::SourceList="$root/apt/sources" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$root/apt" -o Dir::State::Lists="$root/apt/lists" \
    -o Dir::State::Status="$root/apt/status" -o Dir::Cache="$root/apt" \
    -o Dir::Cache::Archives="$root/apt/archives" -o APT::Sandbox::User="" -o Acquire::Retries=3 \
    -o Acquire::Languages=none "$@" >>"$root/apt/log" 2>&1
}
# shellcheck disable=SC2086  # one word per package
if ! apt update || ! apt install -y --no-install-recommends --download-only $packages; then
  tail -n 5 "$root/apt/log" >&2
  echo "packages for $arch: their libraries were not downloaded" >&2
  exit 77
fi

for package in "$root"/apt/archives/*.deb; do
  name=$(dpkg-deb -f "$package" Package)
  case $name in
    libc6-dev | libc-dev-bin | libcrypt-dev | libnsl-dev | libtirpc-dev | linux-libc-dev | \
      libstdc++-*-dev | libgcc-*-dev) continue ;;
  esac
  dpkg-deb --fsys-tarfile "$package" |
    tar -C "$root" --keep-directory-symlink --exclude='./usr/share/doc' \
      --exclude='./usr/share/man' \
      --exclude='./usr/share/locale' -xf -
  dpkg-deb -e "$package" "$root/control"
  for table in shlibs symbols; do
    [ ! -f "$root/control/$table" ] || cat "$root/control/$table" >>"$root/DEBIAN/$table"
  done
  { sed '/^Package:/a Status: install ok installed' "$root/control/control" && echo; } \
    >>"$root/var/lib/dpkg/status"
  dpkg-deb --fsys-tarfile "$package" | tar -tf - | sed 's,^\.,,; s,/$,,; s,^$,/.,' \
    >"$root/var/lib/dpkg/info/$name.list"
  rm -rf "$root/control"
done
rm -rf "$root/apt"
# An absolute link would lead to the files of this machine.
find "$root" -type l -lname '/*' | while read -r link; do
  ln -sfn "$root$(readlink "$link")" "$link"
done
cat >"$root/dpkg-shlibdeps" <<END
#!/bin/sh
DEB_HOST_ARCH=$arch exec dpkg-shlibdeps -S"$root" "\$@"
END
chmod +x "$root/dpkg-shlibdeps"
echo "set(SHLIBDEPS_EXECUTABLE \"$root/dpkg-shlibdeps\")" >"$root/cpack.cmake"
echo "$stamp" >"$root/made-for"
