# Completion of moepack for fish. The program itself says what fits.
function __moepack_finds -d 'Whether moepack offers words here; if not, there are the names of files'
  set -l words (commandline -opc)
  set -g __moepack_found ($words[1] __complete $words[2..] (commandline -ct) 2>/dev/null)
  test (count $__moepack_found) -gt 0
end
complete -c moepack -n __moepack_finds -f -a '$__moepack_found'
