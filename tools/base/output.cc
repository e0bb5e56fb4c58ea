#include "tools/base/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack::cli {

namespace {

constexpr char32_t kReplacement = 0xfffd;
constexpr size_t kPiece = 64 << 10;  // bytes that a ResultStream gathers

// Set by the options that all commands have, before a command runs.
struct Loudness {
  bool quiet = false;
  uint64_t warnings = 0;
  std::vector<std::string> first_warning;  // at most one
} loudness;

void PrintLines(std::string_view text) {
  const std::string shown = ShownLines(text) + "\n";
  std::fwrite(shown.data(), 1, shown.size(), stderr);
}

Status WriteBytes(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return Ok();
  return Error{Code::kIo, Cat("standard output: writing failed: ", ErrnoText(errno))};
}

// \u and four digits for each half of a character, as JSON spells characters beyond U+FFFF.
void AppendJsonEscape(char32_t code, std::string& out) {
  char text[16];
  if (code < 0x10000) {
    std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(code));
  } else {
    const auto above = static_cast<unsigned>(code - 0x10000);
    std::snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (above >> 10),
                  0xdc00 + (above & 0x3ff));
  }
  out += text;
}

// How many characters at the start of `json` need no escape anywhere.
size_t CountPlain(std::string_view json) {
  const auto special = [](char c) { return c < 0x20 || c > 0x7e || c == '['; };
  return static_cast<size_t>(std::find_if(json.begin(), json.end(), special) - json.begin());
}

// The same document without characters that a terminal acts on.
std::string HarmlessJson(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (size_t i = 0; i < json.size();) {
    // This is nearly all of a document.
    const size_t plain = CountPlain(json.substr(i));
    out += json.substr(i, plain);
    i += plain;
    if (i == json.size()) break;
    const Character character = FirstCharacter(json.substr(i));
    // Unescaped characters below a space only occur between the values.
    if (!character.is_utf8) {
      AppendJsonEscape(kReplacement, out);
    } else if (character.IsControl() && character.code > 0x20) {
      AppendJsonEscape(character.code, out);
    } else if (character.code == '[' && out.ends_with("##")) {
      AppendJsonEscape(character.code, out);  // not a workflow command, see Shown
    } else {
      out += json.substr(i, character.bytes);
    }
    i += character.bytes;
  }
  return out;
}

}  // namespace

Status WriteResult(std::string_view text) { return WriteBytes(ShownLines(text)); }

Status WriteReport(std::string_view text, std::string_view line) {
  if (!loudness.quiet) return WriteResult(text);
  if (line.empty()) line = text.substr(0, text.find('\n'));
  return WriteResult(Cat(line, "\n"));
}

Status WriteJsonText(std::string_view json) { return WriteBytes(HarmlessJson(json)); }

Status WriteJsonResult(const moepack::Json& document) { return WriteJsonText(WriteJson(document)); }

void ResultStream::Append(std::string_view text) {
  text_ += text;
  if (text_.size() >= kPiece && text_.ends_with('\n')) WriteLines();
}

// Writes whole lines, so that no character and no escape is split.
void ResultStream::WriteLines() {
  if (status_) status_ = kind_ == Kind::kJson ? WriteJsonText(text_) : WriteResult(text_);
  text_.clear();
}

Status ResultStream::Finish() {
  WriteLines();
  return status_;
}

void PrintMessage(std::string_view text) {
  if (!loudness.quiet) PrintLines(text);
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  CountWarnings(warnings);
  for (const std::string& warning : warnings) PrintMessage("warning: " + Shown(warning));
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) PrintMessage("note: " + Shown(note));
}

void PrintError(const Error& error) {
  PrintLines("error: " + Shown(error.message));
  if (!error.hint.empty()) PrintLines("hint: " + Shown(error.hint));
}

void BeQuiet() { loudness.quiet = true; }
bool IsQuiet() { return loudness.quiet; }

void CountWarnings(const std::vector<std::string>& warnings) {
  loudness.warnings += warnings.size();
  if (loudness.first_warning.empty() && !warnings.empty())
    loudness.first_warning = {warnings.front()};
}

uint64_t WarningCount() { return loudness.warnings; }

std::string FirstOf(const std::vector<std::string>& findings) {
  return loudness.quiet && !findings.empty() ? Cat("; the first: ", findings.front()) : "";
}

std::string FirstWarning() { return FirstOf(loudness.first_warning); }

std::string FixedPoint(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string Scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return value == 0 ? "0" : text;
}

std::string Wrap(std::string_view text, size_t indent, size_t width) {
  std::string out;
  for (const std::string& line : moepack::Split(text, '\n')) {
    size_t column = 0;
    for (const std::string& word : moepack::Split(line, ' ')) {
      if (column > indent && column + 1 + word.size() > width) {
        out += '\n';
        column = 0;
      }
      const size_t gap = column == 0 ? indent : 1;
      out.append(line.empty() ? 0 : gap, ' ');
      out += word;
      column += gap + word.size();
    }
    out += '\n';
  }
  return out;
}

}  // namespace moepack::cli
