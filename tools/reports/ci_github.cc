// Workflow commands of GitHub Actions, with the escapes that their runner undoes.
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/reports/ci_report.h"
#include "tools/reports/verify_report.h"

namespace moepack::cli {
namespace {

using manifest::Severity;

// The runner reads %25, %0D and %0A in messages, and also %3A and %2C in properties.
std::string Escape(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    if (!special) {
      // The form of commands, anywhere in a line, from before the runner knew ::; see Shown.
      out += c == '[' && out.ends_with("##") ? "\\x5b" : std::string(1, c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    constexpr const char* kDigits = "0123456789ABCDEF";
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

const char* CommandName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kClaim:
    case Severity::kNote:
      return "notice";
  }
  return "notice";
}

}  // namespace

std::string GithubText(const CiReport& report) {
  std::string out;
  for (const manifest::Finding& finding : report.cases.findings) {
    const std::string file = finding.file.empty() ? report.file : report.path + "/" + finding.file;
    out += Cat("::", CommandName(finding.severity), " file=", Escape(file, true),
               ",title=", Escape(Cat("moepack ", report.command, ": ", finding.rule), true),
               "::", Escape(FindingText(finding), false), "\n");
  }
  return out + Shown(report.path + ": " + report.totals) + "\n";
}

}  // namespace moepack::cli
