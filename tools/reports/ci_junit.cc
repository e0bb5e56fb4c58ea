// JUnit XML as the reporters of GitLab, Jenkins and GitHub read it.
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "tools/reports/ci_report.h"
#include "tools/reports/verify_report.h"

namespace moepack::cli {
namespace {

using manifest::Severity;

constexpr const char* kReplacementText = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

// The length of the character at the start of `text`; 0 if XML 1.0 does not allow it.
size_t CharacterLength(std::string_view text) {
  const Character character = FirstCharacter(text);
  const char32_t code = character.code;
  const bool control = code < 0x20 && code != '\t' && code != '\n' && code != '\r';
  const bool allowed = character.is_utf8 && !control && code != 0xFFFE && code != 0xFFFF;
  return allowed ? character.bytes : 0;
}

// White space other than spaces needs references, because parsers turn it into spaces in attribute
// values (XML 1.0, section 3.3.3).
std::string_view Entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\n':
      return "&#10;";
    case '\r':
      return "&#13;";
    case '\t':
      return "&#9;";
    default:
      return "";
  }
}

// For attribute values and text alike.
std::string Escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view entity = Entity(text[0]);
    if (length == 0) {
      out += kReplacementText;
    } else if (!entity.empty()) {
      out += entity;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

// A failure element for a rule with errors; warnings and notes go to the case's output.
std::string CaseBody(const RuleOutcome& outcome) {
  std::string errors, notes, first;
  for (const manifest::Finding* finding : outcome.findings) {
    const std::string line = FindingText(*finding);
    if (finding->severity != Severity::kError) {
      notes += Cat(Escape(SeverityName(finding->severity)), ": ", Escape(line), "\n");
      continue;
    }
    if (first.empty()) first = line;
    errors += Escape(line) + "\n";
  }
  std::string body;
  if (!errors.empty())
    body += Cat("      <failure type=\"", Escape(outcome.rule), "\" message=\"", Escape(first),
                "\">", errors, "</failure>\n");
  if (!notes.empty()) body += "      <system-out>" + notes + "</system-out>\n";
  return body;
}

}  // namespace

std::string JunitText(const CiReport& report) {
  const std::vector<RuleOutcome> outcomes = OutcomesByRule(report.cases);
  size_t failures = 0;
  std::string cases;
  for (const RuleOutcome& outcome : outcomes) {
    failures += outcome.failed();
    const std::string body = CaseBody(outcome);
    cases += Cat("    <testcase classname=\"moepack.", report.command, "\" name=\"",
                 Escape(outcome.rule), "\"",
                 body.empty() ? "/>\n" : Cat(">\n", body, "    </testcase>\n"));
  }
  const std::string counts = Cat("tests=\"", outcomes.size(), "\" failures=\"", failures, "\"");
  return Cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ", counts,
             ">\n  <testsuite name=\"moepack ", report.command, " ", Escape(Shown(report.path)),
             "\" ", counts, ">\n", cases, "  </testsuite>\n</testsuites>\n");
}

}  // namespace moepack::cli
