#!/bin/bash
# Man pages and completions as installed: a page for each command that the formatter accepts without
# a complaint, and the words that the shells offer. A shell that is not installed is named and
# skipped.
# usage: pages.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
rm -rf "$work"
mkdir -p "$work/man1"
cd "$work"
fail() {
  echo "$1"
  exit 1
}

awk -v directory=man1 -v version=test -f "$root/tools/install/man_pages.awk" "$root/docs/cli.md"
commands=$(grep -o '^### [a-z-]*$' "$root/docs/cli.md" | sed 's/^### //')
count=0
for command in $commands; do
  page=man1/moepack-$command.1
  [ -s "$page" ] || fail "expected a page for $command"
  # Not every command has arguments.
  found=$(sed -n 's/^\.SH //p' "$page" | grep -vx ARGUMENTS | paste -sd ,)
  [ "$found" = 'NAME,SYNOPSIS,DESCRIPTION,OPTIONS,EXIT STATUS,EXAMPLES,SEE ALSO' ] ||
    fail "$page: the sections are $found"
  grep -qx '\.SS General' "$page" || fail "$page: expected the options of the section General"
  # Every option of the help appears, as one word.
  "$moepack" "$command" --help | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -o -- '--[a-z-]*' |
    while read -r option; do
      sed 's/\\-/-/g' "$page" | grep -q -- "$option" || fail "$page: expected $option"
    done
  count=$((count + 1))
done
[ "$count" -gt 20 ] || fail "expected more than 20 commands, found $count"
# The page of moepack itself lists all of them, in the sections of the help.
[ "$(grep -c '^\.BR moepack' man1/moepack.1)" = "$count" ] ||
  fail "moepack.1: expected $count commands"
sections=$("$moepack" help | grep '^[A-Z].*:$' | sed 's/:$//')
[ "$(sed -n 's/^\.SS //p' man1/moepack.1)" = "$sections" ] ||
  fail "moepack.1: expected the sections of the help"
found=$(sed -n 's/^\.SH //p' man1/moepack.1 | paste -sd ,)
[ "$found" = 'NAME,SYNOPSIS,DESCRIPTION,OPTIONS,COMMANDS,EXIT STATUS' ] ||
  fail "moepack.1: the sections are $found"
for word in help --help --version --markdown; do
  sed 's/\\-/-/g; s/\\f[BR]//g' man1/moepack.1 | grep -qE -- "(moepack|help|,|\|) $word\b" ||
    fail "moepack.1: expected $word"
done
if command -v groff >/dev/null; then
  for page in man1/*.1; do
    said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
    [ -z "$said" ] || fail "$page: groff says: $said"
  done
else
  echo "groff is not installed: no page was formatted"
fi
if command -v lexgrog >/dev/null; then
  lexgrog man1/*.1 >names || fail "lexgrog finds no name in a page: $(cat names)"
fi

for shell in bash zsh fish; do
  awk -v shell=$shell -f "$root/tools/install/completions.awk" "$root/docs/cli.md" >"moepack.$shell"
done
offered=$(bash -c '
  . ./moepack.bash
  COMP_WORDS=(moepack jo) COMP_CWORD=1; _moepack; echo "${COMPREPLY[@]}"
  COMP_WORDS=(moepack build SRC --tas) COMP_CWORD=3; _moepack; echo "${COMPREPLY[@]}"
  COMP_WORDS=(moepack join --tas) COMP_CWORD=2; _moepack; echo "${COMPREPLY[@]}."')
[ "$offered" = "$(printf 'join\n--task\n.')" ] || fail "bash offers: $offered"
echo "bash offers join and --task"
if command -v zsh >/dev/null; then
  zsh -n moepack.zsh
  offered=$(zsh -fc '
    compadd() { local -a all; all=("${(@P)2}"); print -r -- ${(M)all:#$PREFIX*} }
    _files() { print files }
    compdef() { }
    . ./moepack.zsh
    words=(moepack jo) CURRENT=2 PREFIX=jo; _moepack
    words=(moepack build --tas) CURRENT=3 PREFIX=--tas; _moepack')
  [ "$offered" = "$(printf 'join\n--task')" ] || fail "zsh offers: $offered"
  mkdir -p functions
  cp moepack.zsh functions/_moepack # its name where it is installed
  found=$(zsh -fc 'fpath=($PWD/functions $fpath)
    autoload -Uz compinit; compinit -u -D; print -r -- $_comps[moepack]')
  [ "$found" = _moepack ] || fail "zsh: expected _moepack to complete moepack, found '$found'"
  echo "zsh offers join and --task"
else
  echo "zsh is not installed: its completion was not tried"
fi
if command -v fish >/dev/null; then
  offered=$(fish --no-config -c 'source moepack.fish; complete -C "moepack jo"
    complete -C "moepack build --tas"' 2>&1 | cut -f 1)
  [ "$offered" = "$(printf 'join\n--task')" ] || fail "fish offers: $offered"
  echo "fish offers join and --task"
else
  echo "fish is not installed: its completion was not tried"
fi
