// Escapes text that is not ours (names and values from files, paths and words given by users) for a
// terminal, a shell, a workflow log or a page. Nothing may print such text raw.
#pragma once

#include <algorithm>
#include <array>
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

// Quick answers about whole texts. Almost all names of tensors are plain, and a large model has a
// hundred thousand of them.

// For each byte, whether it is printable ASCII that JSON does not escape, and that begins no
// workflow command ("::", "##[").
inline constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> plain = {};
  for (size_t c = ' '; c <= '~'; ++c) plain[c] = true;
  for (const char c : {'"', '\\', ':', '#'}) plain[static_cast<size_t>(c)] = false;
  return plain;
}();

// If it is true, Shown(text) is `text`, a JSON document has it between quotes as it is, and it has
// as many characters as bytes. The reverse need not hold.
inline bool IsPlainText(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return kIsPlain[static_cast<unsigned char>(c)]; });
}

// Whether a text, that of a file for instance, has nothing but blanks and ends of lines.
inline bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace moepack
