#!/bin/sh
# Writes DIR/moepack-VERSION.tar.xz, or .tar: the tree as it is here, with man pages and completions
# in share/, where an installation has them. It is built and tested without git. The same tree gives
# the same bytes, whether it comes from git or from such an archive. Its files have the date
# SOURCE_DATE_EPOCH, or that of the last commit, or the one that the archive had.
# usage: source.sh DIR [tar]   (prints the name of the file)
set -eu
mkdir -p "$1"
directory=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
export LC_ALL=C
version=$(sed -n 's/^project(moepack VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -e .git ]; then
  epoch=$(git log -1 --format=%ct)
  git ls-files --deleted >"$work/deleted"
  git ls-files --cached --others --exclude-standard >"$work/known"
  grep -vxFf "$work/deleted" "$work/known" | sort -u >"$work/files"
else
  epoch=$(stat -c %Y CMakeLists.txt)
  find . \( -path './build*' -o -path ./share -o -name node_modules -o -name '*.partial' \) -prune \
    -o ! -type d -print | sed 's,^\./,,' | sort >"$work/files"
fi

share=$work/made/share
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
  "$share/fish/vendor_completions.d"
awk -v directory="$share/man/man1" -v version="$version" -f tools/install/man_pages.awk docs/cli.md
complete() {
  cp "tools/completion/moepack.$1" "$share/$2"
}
complete bash bash-completion/completions/moepack
complete zsh zsh/site-functions/_moepack
complete fish fish/vendor_completions.d/moepack.fish

archive=$directory/moepack-$version.tar
tar --create --file "$archive.part" --format=gnu --sort=name \
  --mtime="@${SOURCE_DATE_EPOCH:-$epoch}" --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w \
  --hard-dereference \
  --transform="s,^,moepack-$version/,SH" --files-from "$work/files" -C "$work/made" share
if [ "${2-}" != tar ]; then
  xz -6 -T1 --force "$archive.part" # several threads would give other bytes
  mv "$archive.part.xz" "$archive.xz"
  archive=$archive.xz
else
  mv "$archive.part" "$archive"
fi
echo "$archive"
