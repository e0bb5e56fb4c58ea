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

# What precedes the options in the conventional order, which is not the reference's.
function introduce(usage) {
  heading("SYNOPSIS")
  print usage >page
  heading("DESCRIPTION")
  print description >page
}

function finish() {
  if (page == "") return
  heading("EXIT STATUS")
  print "0 done, 1 internal error, 2 usage, 3 corrupt input, 4 unsupported, 5 I/O or not found, " \
    "6 verification or quality check failed, 7 registry or device unavailable, " \
    "130 interrupted." >page
  if (examples != "") {
    heading("EXAMPLES")
    print ".nf\n" examples ".fi" >page
    heading("SEE ALSO")
    print ".BR moepack (1)" >page
  }
  close(page)
  page = examples = description = paragraph = ""
  optional = 0
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
/^```/ { code = !code; next }
code { examples = examples roff($0) "\n"; next }
/^Usage: / { introduce(roff(substr($0, 8))); next }
/^\| .* \| meaning \|$/ {
  title = $0
  sub(/^\| /, "", title)
  sub(/ \| meaning \|$/, "", title)
  if (title == "Arguments") {
    heading("ARGUMENTS")
  } else {
    if (!optional++) heading("OPTIONS")
    print ".SS " roff(title) >page
  }
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
/^$/ { if (description != "") paragraph = "\n.PP"; next }
{
  description = description paragraph (description == "" ? "" : "\n") roff($0)
  paragraph = ""
}

END {
  finish()
  start("moepack", "repackages Mixture-of-Experts checkpoints for several machines")
  description = "Each command has a page of its own, and \\fBmoepack help COMMAND\\fR explains it."
  introduce("\\fBmoepack\\fR COMMAND [options]\n.br\n" \
    "\\fBmoepack help\\fR [COMMAND | \\-\\-markdown]\n.br\n" \
    "\\fBmoepack \\-\\-version\\fR")
  heading("OPTIONS")
  print ".TP\n\\fB\\-h, \\-\\-help\\fR\nList the commands, as \\fBhelp\\fR does." >page
  print ".TP\n\\fB\\-V, \\-\\-version\\fR\nPrint the version." >page
  heading("COMMANDS")
  print ".TP\n\\fBhelp\\fR [COMMAND | \\-\\-markdown]" >page
  print "Explains one command or lists all; with \\-\\-markdown, prints the whole reference." >page
  for (i = 1; i < count; ++i) {
    short = pages[i]
    sub(/^moepack-/, "", short)
    if (sections[short] != listed) print ".SS " roff(sections[short]) >page
    listed = sections[short]
    print ".TP\n.BR " roff(pages[i]) " (1)\n" roff(summaries[short]) "." >page
  }
  finish()
}
