# Makes the completion of commands and options for a shell out of docs/cli.md, whose reference is
# what `moepack help --markdown` prints.
# usage: awk -v shell=bash|zsh|fish -f completions.awk docs/cli.md

function quoted(text) {
  gsub(/`/, "", text)
  gsub(/'/, "'\\''", text)
  return "'" text "'"
}

# The first sentence that tells an option apart from the others of its command.
function short_help(name, help,    sentences, sentence, i) {
  sentences = split(help, sentence, /\. /)
  for (i = 1; i <= sentences; ++i)
    if (rows_with[name, sentence[i]] == 1) return sentence[i]
  return sentence[1]
}

# A row of a table of options, for the command `name`.
function add(row,    spelled, help, value, sentences, sentence, parts, words, i) {
  sub(/^\| `/, "", row)
  spelled = row
  sub(/`.*/, "", spelled)
  help = row
  sub(/^[^`]*` \| /, "", help)
  sub(/\.? \|$/, "", help)
  # A value follows a space of its own, not one after a comma: "-o, --output DIR".
  value = spelled ~ /[^,] /
  sentences = split(help, sentence, /\. /)
  for (i = 1; i <= sentences; ++i) ++rows_with[name, sentence[i]]
  parts = split(spelled, words, /, | /)
  for (i = 1; i <= parts; ++i) {
    if (words[i] !~ /^--?[a-z]/) continue
    options[name] = options[name] " " words[i]
    option[name, ++options_of[name]] = words[i]
    takes[name, options_of[name]] = value
    meaning[name, options_of[name]] = help
  }
}

function fish(condition, what, text) {
  print "complete -c moepack -n '" condition "' " what " -d " quoted(text)
}

/^<!-- Below this line/ { reference = 1; next }
!reference { next }
/^## Exit / { exit }
/^### / {
  name = $2
  commands[++count] = name
  wanted = 1
  next
}
wanted && NF { summaries[name] = $0; sub(/\.$/, "", summaries[name]); wanted = 0; next }
/^\| `-/ {
  # Rows above the first command are shared, under their first long names.
  if (name != "") add($0)
  else if (match($0, /--[a-z-]+/)) shared[substr($0, RSTART, RLENGTH)] = $0
  next
}
/^\[Shared\]/ { sharing = 1 }
sharing && NF == 0 { sharing = 0 }
sharing {
  for (i = 1; i <= NF; ++i)
    if (match($i, /--[a-z-]+/)) add(shared[substr($i, RSTART, RLENGTH)])
}

END {
  all = ""
  for (i = 1; i <= count; ++i) all = all " " commands[i]
  sub(/^ /, "", all)
  # The program takes its command from its first word and from no other.
  if (shell == "bash") {
    print "# Completion of moepack for bash, made of docs/cli.md."
    print "_moepack() {"
    print "  local word=${COMP_WORDS[COMP_CWORD]} words= options="
    print "  case $COMP_CWORD:${COMP_WORDS[1]} in"
    print "    1:*) words=\"help " all "\" options=\"-h --help -V --version\" ;;"
    print "    2:help|2:-h|2:--help) words=\"" all "\" options=--markdown ;;"
    for (i = 1; i <= count; ++i)
      print "    *:" commands[i] ") options=\"" substr(options[commands[i]], 2) "\" ;;"
    print "  esac"
    print "  [[ $word == -* ]] && words=$options"
    print "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))"
    print "}"
    print "complete -o default -o bashdefault -F _moepack moepack"
  } else if (shell == "zsh") {
    print "#compdef moepack"
    print "# Completion of moepack for zsh, made of docs/cli.md."
    print "_moepack() {"
    print "  local -a commands options"
    print "  case $CURRENT:$words[2] in"
    print "    2:*) commands=(help " all ") options=(-h --help -V --version) ;;"
    print "    3:(help|-h|--help)) commands=(" all ") options=(--markdown) ;;"
    for (i = 1; i <= count; ++i)
      print "    *:" commands[i] ") options=(" substr(options[commands[i]], 2) ") ;;"
    print "  esac"
    print "  if [[ $words[CURRENT] == -* ]]; then"
    print "    compadd -a options"
    print "  elif (( $#commands )); then"
    print "    compadd -a commands"
    print "  else"
    print "    _files"
    print "  fi"
    print "}"
    print "if [ \"$funcstack[1]\" = _moepack ]; then"
    print "  _moepack \"$@\""
    print "else"
    print "  compdef _moepack moepack"
    print "fi"
  } else {
    print "# Completion of moepack for fish, made of docs/cli.md."
    print "function __moepack_first -d 'Whether the first word is one of these, or \"\" before it'"
    print "  set -l words (commandline -poc)"
    print "  contains -- \"$words[2]\" $argv"
    print "end"
    print "function __moepack_help -d 'Whether the next word is the command to explain'"
    print "  __moepack_first help -h --help; and test (count (commandline -poc)) -eq 2"
    print "end"
    first = "__moepack_first \"\""
    fish(first, "-f -a help", "Explains one command, or lists all")
    for (i = 1; i <= count; ++i) fish(first, "-f -a " commands[i], summaries[commands[i]])
    fish(first, "-s h -l help", "List the commands, or explain one")
    fish(first, "-s V -l version", "Print the version")
    for (i = 1; i <= count; ++i)
      fish("__moepack_help", "-f -a " commands[i], summaries[commands[i]])
    fish("__moepack_help", "-l markdown", "Print the whole reference")
    for (i = 1; i <= count; ++i) {
      name = commands[i]
      for (k = 1; k <= options_of[name]; ++k) {
        word = option[name, k]
        flag = word ~ /^--/ ? "-l " substr(word, 3) : "-s " substr(word, 2)
        if (takes[name, k]) flag = flag " -r"
        fish("__moepack_first " name, flag, short_help(name, meaning[name, k]))
      }
    }
  }
}
