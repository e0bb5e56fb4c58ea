#!/bin/sh
# Installs what is missing of the named sections of .ci/packages.txt (default: build). Says
# nothing when nothing is missing.
set -eu
list=$(dirname "$0")/packages.txt
[ $# -gt 0 ] || set -- build

packages=$(awk -v wanted=" $* " '
  { sub(/#.*/, "") }
  /^\[/ { gsub(/[][ \t]/, ""); take = index(wanted, " " $0 " "); next }
  NF && take { print $1 }' "$list")

if ! command -v dpkg-query >/dev/null; then
  echo "make deps: no dpkg here, so nothing is installed. The build needs what Debian calls:" >&2
  echo "  "$packages >&2
  exit 0
fi

missing=
for package in $packages; do
  name=${package%\?}
  status=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)
  [ "$status" = installed ] && continue
  if [ "$name" != "$package" ]; then
    apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [0-9]' || continue
  fi
  missing="$missing $name"
done
[ -n "$missing" ] || exit 0

command="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  as_root="sudo env"
else
  echo "make deps: these packages are missing and neither root nor sudo is at hand:$missing" >&2
  echo "Ask whoever administers this machine to run:" >&2
  echo "  apt-get update && $command" >&2
  exit 1
fi

echo "make deps: installing$missing" >&2
as_root="$as_root DEBIAN_FRONTEND=noninteractive"
$as_root apt-get -q update >&2
$as_root apt-get -q -o DPkg::Lock::Timeout=300 ${command#apt-get } </dev/null >&2
# Only now it is known which of the names with '?' there are.
[ -n "${MOEPACK_DEPS_AGAIN-}" ] || MOEPACK_DEPS_AGAIN=1 exec "$0" "$@"
