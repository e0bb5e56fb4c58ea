#include "tools/output.h"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/file.h"
#include "libshard/text.h"

namespace cli {

using shard::Cat;
using shard::Code;
using shard::Error;
using shard::Status;

Status WriteResult(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return shard::Ok();
  return Error{Code::kIo, Cat("standard output: writing failed: ", shard::ErrnoText(errno))};
}

Status WriteJsonResult(const shard::Json& document) {
  return WriteResult(shard::WriteJson(document));
}

void PrintMessage(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) PrintMessage("warning: " + warning);
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) PrintMessage("note: " + note);
}

void PrintError(const Error& error) {
  PrintMessage("error: " + error.message);
  if (!error.hint.empty()) PrintMessage("hint: " + error.hint);
}

std::string Plural(uint64_t count, std::string_view noun) {
  return Cat(shard::FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string ExactBytes(uint64_t bytes) {
  if (bytes < 1000) return shard::FormatBytes(bytes);
  return Cat(shard::FormatBytes(bytes), " (", shard::FormatCount(bytes), " bytes)");
}

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
  for (const std::string& line : shard::Split(text, '\n')) {
    size_t column = 0;
    for (const std::string& word : shard::Split(line, ' ')) {
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

}  // namespace cli
