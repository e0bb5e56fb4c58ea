// Where text goes: results to stdout, everything else to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack::cli {

// Writes a whole result to stdout and flushes it; kIo if that fails (a full disk, a closed pipe).
// Everything that a terminal acts on is escaped, except for newlines and tabs: names and paths that
// could forge lines of a report must go through Shown first.
Status WriteResult(std::string_view text);
// Writes a report that people read. With --quiet only `line`, which says the result, or the first
// line of the report where there is none.
Status WriteReport(std::string_view text, std::string_view line = "");
Status WriteJsonResult(const moepack::Json& document);
// The text of a JSON document. Characters that a terminal acts on are escaped as in \u009b, which
// does not change the document.
Status WriteJsonText(std::string_view json);

// A result that is too long to hold in memory. It is written to stdout in pieces, otherwise like
// the functions above.
class ResultStream {
 public:
  enum class Kind : uint8_t { kText, kJson };
  explicit ResultStream(Kind kind) : kind_(kind) {}
  // Appends a few lines, or parts of lines.
  void Append(std::string_view text);
  // Writes the rest. kIo if any part could not be written.
  Status Finish();

 private:
  void WriteLines();

  Kind kind_;
  std::string text_;  // what is written next
  Status status_ = Ok();
};

// Print lines on stderr; notes, warnings and errors are one line each, whatever they contain.
void PrintMessage(std::string_view text);
void PrintWarnings(const std::vector<std::string>& warnings);
void PrintNotes(const std::vector<std::string>& notes);
void PrintError(const Error& error);

// For --quiet: from now on messages, warnings and notes are not printed, progress is not drawn, and
// WriteReport writes one line.
void BeQuiet();
bool IsQuiet();
// Counts warnings that a report contains, for --strict; PrintWarnings counts its own, even when
// quiet.
void CountWarnings(const std::vector<std::string>& warnings);
uint64_t WarningCount();
// "; the first: ..." for an error that ends a quiet run, in which nothing else names the first of
// several findings, or the first warning that was counted. "" if not quiet.
std::string FirstOf(const std::vector<std::string>& findings);
std::string FirstWarning();

// "4.50": two digits after the point.
std::string FixedPoint(double value);
// "1.25e-05", "0": for values whose magnitude matters.
std::string Scientific(double value);

// `text` with every line indented and broken at spaces, so that lines end before `width`.
std::string Wrap(std::string_view text, size_t indent, size_t width);

}  // namespace moepack::cli
