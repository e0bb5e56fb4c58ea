#!/bin/bash
# Man pages and completions as installed: a page for each command that the formatter accepts
# without a complaint, and the words and values that the shells offer. A shell that is not installed
# is named and skipped.
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
  "$moepack" completion $shell >moepack.$shell
done
# The scripts ask the program that the line begins with.
PATH=$(dirname "$moepack"):$PATH
"$moepack" build "$root/fixtures/tiny-moe" --groups 2 --no-verify -o out -q >/dev/null
# A line, and what each shell offers at its end.
cat >lines <<'END'
moepack jo: join
moepack he: help
moepack --v: --version
moepack --h: --help
moepack help bu: build
moepack --help bu: build
moepack help --m: --markdown
moepack build SRC --tas: --task
moepack build SRC --quantize Q4_K_M: Q4_K_M
moepack plan SRC --partition mod: modulo
moepack assemble out --group 1: 1
moepack join --tas:
moepack assemble out --group 1 plan --swee:
END
bash -c '
  . ./moepack.bash
  while IFS=: read -r line _; do
    COMP_WORDS=($line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _moepack
    echo "$line:${COMPREPLY:+ ${COMPREPLY[*]}}"
  done <lines' >bash.offers
diff lines bash.offers || fail "bash offers other words"
echo "bash offers what it should"
if command -v zsh >/dev/null; then
  zsh -n moepack.zsh
  zsh -fc '
    compadd() { local -a all; all=("${(@P)argv[-1]}"); all=(${(M)all:#$words[CURRENT]*})
      print -rn -- ${all:+ $all} }
    _files() { print -n " files" }
    compdef() { }
    . ./moepack.zsh
    while IFS=: read -r line _; do
      words=(${=line}) CURRENT=$#words
      print -r -- "$line:$(_moepack)"
    done <lines' >zsh.offers
  diff lines zsh.offers || fail "zsh offers other words"
  mkdir -p functions
  cp moepack.zsh functions/_moepack # its name where it is installed
  found=$(zsh -fc 'fpath=($PWD/functions $fpath)
    autoload -Uz compinit; compinit -u -D; print -r -- $_comps[moepack]')
  [ "$found" = _moepack ] || fail "zsh: expected _moepack to complete moepack, found '$found'"
  echo "zsh offers what it should"
else
  echo "zsh is not installed: its completion was not tried"
fi
if command -v fish >/dev/null; then
  fish --no-config -c 'source moepack.fish
    while read -d : line rest
      set -l offered (complete -C $line | cut -f 1)
      echo (string trim -r "$line: $offered")
    end <lines' >fish.offers 2>&1 || true
  diff lines fish.offers || fail "fish offers other words"
  echo "fish offers what it should"
else
  echo "fish is not installed: its completion was not tried"
fi
