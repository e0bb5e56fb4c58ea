// Escapes text that is not ours (names and values from files, paths and words given by users) for a
// terminal, a shell, a workflow log or a page. Nothing may print such text raw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moepack {

// `text` on one line, for cells of tables and for messages: control characters and bytes that are
// not UTF-8 are escaped as in \x1b, and so is anything that would begin a workflow command in a
// GitHub log. Everything else is unchanged. Applying it twice gives the same result as applying it
// once.
std::string Shown(std::string_view text);
// `text` itself where it is UTF-8, else as Shown gives it: for documents, which are UTF-8.
std::string ShownUnlessUtf8(std::string_view text);
// For whole reports, whose lines are ours: newlines, tabs and workflow commands are kept, too.
std::string ShownLines(std::string_view text);
// `text` in double quotes, as Shown escapes it, cut at 200 bytes and with quotes escaped. Names
// from hostile files enter messages only through this.
std::string Quoted(std::string_view text);

// Quote a word and a whole command line so that /bin/sh reads them back. Bytes that a terminal acts
// on are produced by a printf in the line, so that the line itself contains none (and a word loses
// trailing newlines).
std::string ShellWord(std::string_view text);
std::string ShellCommand(const std::vector<std::string>& words);
// A path as a word of a command: one that begins with '-' gets "./" in front, so that no program
// takes it for an option.
std::string PathArgument(std::string_view path);

// For a Markdown page: as text in which no character is markup, and as `code`, which may be in a
// table.
std::string MarkdownText(std::string_view text);
std::string MarkdownCode(std::string_view text);

}  // namespace moepack
