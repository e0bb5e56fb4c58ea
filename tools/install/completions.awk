# Makes the completion of commands and options for a shell out of docs/cli.md, whose reference is
# what `moepack help --markdown` prints.
# usage: awk -v shell=bash|zsh|fish -f completions.awk docs/cli.md

function quoted(text) {
  gsub(/`/, "", text)
  gsub(/'/, "'\\''", text)
  return "'" text "'"
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
  row = $0
  sub(/^\| `/, "", row)
  spelled = row
  sub(/`.*/, "", spelled)
  help = row
  sub(/^[^`]*` \| /, "", help)
  sub(/ \|$/, "", help)
  sub(/\. .*/, "", help)
  sub(/\.$/, "", help)
  value = spelled ~ /[A-Z]$/ || spelled ~ /[A-Z]\]?$/
  parts = split(spelled, words, /, | /)
  for (i = 1; i <= parts; ++i) {
    if (words[i] !~ /^--?[a-z]/) continue
    options[name] = options[name] " " words[i]
    option[name, ++options_of[name]] = words[i]
    takes[name, options_of[name]] = value
    meaning[name, options_of[name]] = help
  }
}

END {
  all = ""
  for (i = 1; i <= count; ++i) all = all " " commands[i]
  if (shell == "bash") {
    print "# Completion of moepack for bash, made of docs/cli.md."
    print "_moepack() {"
    print "  local word=${COMP_WORDS[COMP_CWORD]} words="
    print "  if [ \"$COMP_CWORD\" -eq 1 ]; then"
    print "    COMPREPLY=($(compgen -W \"help" all "\" -- \"$word\"))"
    print "    return"
    print "  fi"
    print "  case ${COMP_WORDS[1]} in"
    print "    help) COMPREPLY=($(compgen -W \"" substr(all, 2) "\" -- \"$word\")); return ;;"
    for (i = 1; i <= count; ++i)
      print "    " commands[i] ") words=\"" substr(options[commands[i]], 2) "\" ;;"
    print "  esac"
    print "  [[ $word == -* ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))"
    print "}"
    print "complete -o default -o bashdefault -F _moepack moepack"
  } else if (shell == "zsh") {
    print "#compdef moepack"
    print "# Completion of moepack for zsh, made of docs/cli.md."
    print "_moepack() {"
    print "  local -a commands options"
    print "  commands=(help" all ")"
    print "  if (( CURRENT == 2 )); then"
    print "    compadd -a commands"
    print "    return"
    print "  fi"
    print "  case $words[2] in"
    print "    help) compadd -a commands; return ;;"
    for (i = 1; i <= count; ++i)
      print "    " commands[i] ") options=(" substr(options[commands[i]], 2) ") ;;"
    print "  esac"
    print "  if [[ $words[CURRENT] == -* ]]; then"
    print "    compadd -a options"
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
    for (i = 1; i <= count; ++i)
      print "complete -c moepack -f -n __fish_use_subcommand -a " commands[i] " -d " \
        quoted(summaries[commands[i]])
    for (i = 1; i <= count; ++i) {
      name = commands[i]
      for (k = 1; k <= options_of[name]; ++k) {
        word = option[name, k]
        flag = word ~ /^--/ ? "-l " substr(word, 3) : "-s " substr(word, 2)
        print "complete -c moepack -n '__fish_seen_subcommand_from " name "' " flag \
          (takes[name, k] ? " -r" : "") " -d " quoted(meaning[name, k])
      }
    }
  }
}
