// Text that is not ours - names and values from files, paths and words that users gave - on its way
// to a terminal, a shell, a workflow log or a page. Nothing else may print it raw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shard {

// `text` on one line, for cells of tables and for messages: control characters and bytes that are
// no UTF-8 stand as \x1b, so does what would begin a workflow command in a log of GitHub, and all
// else as it is. Text that went through it once stays as it is.
std::string Shown(std::string_view text);
// For whole reports, whose lines are ours: newlines, tabs and workflow commands stay too.
std::string ShownLines(std::string_view text);
// `text` in double quotes, as Shown has it, cut at 200 bytes and with quotes escaped: names from
// hostile files get into messages only through this.
std::string Quoted(std::string_view text);

// A word, a whole command line, as /bin/sh reads them back. Bytes that a terminal acts on are made
// by printf there, so that the line itself holds none (and a word loses newlines at its end).
std::string ShellWord(std::string_view text);
std::string ShellCommand(const std::vector<std::string>& words);

// For a Markdown page: as text, where no character is markup; and as `code`, also in a table.
std::string MarkdownText(std::string_view text);
std::string MarkdownCode(std::string_view text);

}  // namespace shard
