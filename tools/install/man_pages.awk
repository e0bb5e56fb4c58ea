# Makes a man page for each command out of docs/cli.md, whose reference is what
# `moepack help --markdown` prints: DIRECTORY/moepack-build.1, ..., and moepack.1, which lists them
# by section.
# usage: awk -v directory=DIRECTORY -v version=VERSION -f man_pages.awk docs/cli.md

# Text of a paragraph or a cell as roff: no control lines, no hyphens made of minus signs.
function roff(text) {
  gsub(/\\\|/, "|", text)
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  while (match(text, /`[^`]*`/)) {
    text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fR" \
      substr(text, RSTART + RLENGTH)
  }
  while (match(text, /\[[^]]*\]\([^)]*\)/)) {
    link = substr(text, RSTART + 1, RLENGTH - 1)
    sub(/\].*/, "", link)
    text = substr(text, 1, RSTART - 1) link substr(text, RSTART + RLENGTH)
  }
  sub(/^\./, "\\\\\\&.", text)
  sub(/^'/, "\\\\\\&'", text)
  return text
}

function heading(title) { print ".SH " title >page }

function start(name, summary) {
  page = directory "/" name ".1"
  print ".TH " toupper(roff(name)) " 1 \"\" \"moepack " version "\" \"moepack\"" >page
  heading("NAME")
  print roff(name) " \\- " roff(summary) >page
  pages[++count] = name
}

function finish() {
  if (page == "") return
  heading("EXIT STATUS")
  print "0 done, 1 internal error, 2 usage, 3 corrupt input, 4 unsupported, 5 I/O or not found, 6 " \
    "verification or quality check failed, 7 registry or device unavailable, 130 interrupted." >page
  heading("SEE ALSO")
  print ".BR moepack (1)" >page
  close(page)
  page = ""
}

/^<!-- Below this line/ { reference = 1; next }
!reference { next }
/^## Exit / { exit }
/^## / { finish(); section = substr($0, 4); next }
/^### / {
  finish()
  name = $2
  sections[name] = section
  wanted = 1
  next
}
wanted && NF {
  summary = $0
  sub(/\.$/, "", summary)
  summaries[name] = summary
  start("moepack-" name, summary)
  wanted = 0
  next
}
page == "" { next }
/^```sh/ { heading("EXAMPLES"); code = 1; print ".nf" >page; next }
/^```/ { code = 0; described = 0; print ".fi" >page; heading("DESCRIPTION"); next }
code { print roff($0) >page; next }
/^Usage: / {
  heading("SYNOPSIS")
  line = $0
  sub(/^Usage: /, "", line)
  print roff(line) >page
  next
}
/^\| .* \| meaning \|$/ {
  title = $0
  sub(/^\| /, "", title)
  sub(/ \| meaning \|$/, "", title)
  heading(toupper(title))
  next
}
/^\|---/ { next }
/^\| / {
  row = $0
  sub(/^\| /, "", row)
  sub(/ \|$/, "", row)
  cut = index(row, " | ")
  print ".TP" >page
  print roff(substr(row, 1, cut - 1)) >page
  print roff(substr(row, cut + 3)) >page
  next
}
/^$/ { print ".PP" >page; next }
{ print roff($0) >page }

END {
  finish()
  start("moepack", "repackages Mixture-of-Experts checkpoints for several machines")
  heading("SYNOPSIS")
  print "\\fBmoepack\\fR COMMAND [options]" >page
  heading("COMMANDS")
  for (i = 1; i < count; ++i) {
    short = pages[i]
    sub(/^moepack-/, "", short)
    if (sections[short] != listed) print ".SS " roff(sections[short]) >page
    listed = sections[short]
    print ".TP\n.BR " roff(pages[i]) " (1)\n" roff(summaries[short]) "." >page
  }
}
