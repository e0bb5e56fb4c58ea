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

# A row of a table of options or arguments, to be printed under `title`.
function add_option(title, row,    cut) {
  sub(/^\| /, "", row)
  sub(/ \|$/, "", row)
  cut = index(row, " | ")
  if (!(title in rows)) titles[++title_count] = title
  rows[title] = rows[title] ".TP\n" roff(substr(row, 1, cut - 1)) "\n" \
    roff(substr(row, cut + 3)) "\n"
}

# The tables of a command. The section General, which every command has, is the last.
function print_options(    i, optional) {
  for (i = 1; i <= title_count; ++i) {
    if (titles[i] == "General") continue
    if (titles[i] == "Arguments") {
      heading("ARGUMENTS")
    } else {
      if (!optional++) heading("OPTIONS")
      print ".SS " roff(titles[i]) >page
    }
    printf "%s", rows[titles[i]] >page
  }
  if ("General" in rows) {
    if (!optional) heading("OPTIONS")
    printf ".SS General\n%s", rows["General"] >page
  }
  delete rows
  delete titles
  title_count = 0
}

function finish() {
  if (page == "") return
  print_options()
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
/^\| .* \| meaning \|$/ {
  title = $0
  sub(/^\| /, "", title)
  sub(/ \| meaning \|$/, "", title)
  next
}
/^\|---/ { next }
/^\| / {
  # Rows above the first command are shared, under their first long names.
  if (page != "") {
    add_option(title, $0)
  } else if (match($0, /--[a-z-]+/)) {
    section_of[substr($0, RSTART, RLENGTH)] = title
    shared[substr($0, RSTART, RLENGTH)] = $0
  }
  next
}
page == "" { next }
/^```/ { code = !code; next }
code { examples = examples roff($0) "\n"; next }
/^Usage: / { introduce(roff(substr($0, 8))); next }
/^\[Shared\]/ { sharing = 1 }
sharing && NF == 0 { sharing = 0 }
sharing {
  for (i = 1; i <= NF; ++i)
    if (match($i, /--[a-z-]+/)) {
      word = substr($i, RSTART, RLENGTH)
      add_option(section_of[word], shared[word])
    }
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
