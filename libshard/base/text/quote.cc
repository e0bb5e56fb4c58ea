#include "libshard/base/text/quote.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr size_t kMaxQuoted = 200;

bool IsPlainAscii(char c) { return c >= 0x20 && c < 0x7f; }

void AppendHex(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += Hex(&byte, 1);
  }
}

// Appends every character, escaped if it must not be shown; characters in `keep` are never escaped.
void AppendShown(std::string_view text, std::string_view keep, std::string& out) {
  while (!text.empty()) {
    const auto plain = std::find_if_not(text.begin(), text.end(), IsPlainAscii);
    const auto run = static_cast<size_t>(plain - text.begin());
    out += text.substr(0, run);
    text.remove_prefix(run);
    if (text.empty()) return;
    const Character character = FirstCharacter(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    const bool kept = keep.find(bytes[0]) != std::string_view::npos;
    if (kept || (character.is_utf8 && !character.IsControl())) {
      out += bytes;
    } else {
      AppendHex(bytes, out);
    }
    text.remove_prefix(character.bytes);
  }
}

// Escapes for printf in single quotes: nothing but letters, digits, spaces and \nnn.
std::string PrintfWord(std::string_view text) {
  std::string out = "\"$(printf '";
  for (const char c : text) {
    if (IsPlainAscii(c) && c != '\'' && c != '\\' && c != '%' && c != '#') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '\\';
    for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + ((byte >> shift) & 7));
  }
  return out + "')\"";
}

// GitHub's workflow runner reads commands from every line of a log: "::error::" at the start of a
// line, "##[error]" anywhere.
void DisarmCommands(std::string& text) {
  constexpr std::string_view kColon = "\\x3a", kBracket = "\\x5b";
  const size_t start = text.find_first_not_of(" \t\n");
  if (start != std::string::npos && text.compare(start, 2, "::") == 0)
    text.replace(start, 1, kColon);
  for (size_t at = 0; (at = text.find("##[", at)) != std::string::npos;)
    text.replace(at + 2, 1, kBracket);
}

}  // namespace

std::string Shown(std::string_view text) {
  std::string out;
  AppendShown(text, "", out);
  DisarmCommands(out);
  return out;
}

std::string ShownUnlessUtf8(std::string_view text) {
  return IsUtf8(text) ? std::string(text) : Shown(text);
}

std::string ShownLines(std::string_view text) {
  std::string out;
  AppendShown(text, "\n\t", out);
  return out;
}

std::string Quoted(std::string_view text) {
  std::string_view rest = WholeCharacters(text, kMaxQuoted);
  std::string out = "\"";
  while (!rest.empty()) {
    const size_t special = std::min(rest.find_first_of("\"\\"), rest.size());
    AppendShown(rest.substr(0, special), "", out);
    rest.remove_prefix(special);
    if (rest.empty()) break;
    out += '\\';
    out += rest[0];
    rest.remove_prefix(1);
  }
  out += '"';
  DisarmCommands(out);
  if (text.size() > kMaxQuoted) out += Cat("... (", text.size(), " bytes)");
  return out;
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  if (Shown(text) != text) return PrintfWord(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ShellCommand(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellWord(word);
  return line;
}

std::string PathArgument(std::string_view path) {
  return Cat(path.starts_with('-') ? "./" : "", path);
}

std::string MarkdownText(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_[]<>#|~&$@:";
  const std::string shown = Shown(text);
  const auto is_word = [&](size_t at) {
    return at < shown.size() && std::isalnum(static_cast<unsigned char>(shown[at])) != 0;
  };
  std::string out;
  for (size_t i = 0; i < shown.size(); ++i) {
    const bool inside = shown[i] == '_' && i > 0 && is_word(i - 1) && is_word(i + 1);
    if (!inside && kMarkup.find(shown[i]) != std::string_view::npos) out += '\\';
    out += shown[i];
  }
  return out;
}

std::string MarkdownCode(std::string_view text) {
  const std::string shown = Shown(text);
  size_t longest = 0, run = 0;
  std::string cell;
  for (const char c : shown) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') cell += '\\';
    cell += c;
  }
  const std::string fence(longest + 1, '`');
  const char* space = longest > 0 ? " " : "";
  return Cat(fence, space, cell, space, fence);
}

}  // namespace moepack
