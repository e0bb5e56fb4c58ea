#compdef moepack
# Completion of moepack for zsh. The program itself says what fits.
_moepack() {
  local -a found values shown
  local line
  found=("${(@f)$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $found; do
    values+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  }")
  done
  if (( $#values )); then
    compadd -l -d shown -a values
  elif [[ $words[CURRENT] != -* ]]; then
    _files
  fi
}
if [ "$funcstack[1]" = _moepack ]; then
  _moepack "$@"
else
  compdef _moepack moepack
fi
