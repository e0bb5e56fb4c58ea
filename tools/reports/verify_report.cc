#include "tools/reports/verify_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/node_record.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {

using manifest::Finding;
using manifest::Severity;
using manifest::VerifyReport;

namespace {

bool HasFinding(const RuleOutcome& outcome, Severity severity) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [&](const Finding* finding) { return finding->severity == severity; });
}

// "rule: file: message" of each finding.
std::vector<std::string> TextsOf(const VerifyReport& report, Severity severity) {
  std::vector<std::string> texts;
  for (const Finding& finding : report.findings) {
    if (finding.severity == severity)
      texts.push_back(Cat(finding.rule, ": ", FindingText(finding)));
  }
  return texts;
}

}  // namespace

bool RuleOutcome::failed() const { return HasFinding(*this, Severity::kError); }

bool RuleOutcome::warned() const { return HasFinding(*this, Severity::kWarning); }

std::vector<RuleOutcome> OutcomesByRule(const VerifyReport& report) {
  std::vector<RuleOutcome> outcomes;
  for (const std::string& rule : report.rules) outcomes.push_back({rule, {}});
  for (const Finding& finding : report.findings) {
    auto outcome =
        std::find_if(outcomes.begin(), outcomes.end(),
                     [&](const RuleOutcome& candidate) { return candidate.rule == finding.rule; });
    if (outcome == outcomes.end()) outcome = outcomes.insert(outcome, {finding.rule, {}});
    outcome->findings.push_back(&finding);
  }
  return outcomes;
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kClaim:
      return "claim";
    case Severity::kNote:
      return "note";
  }
  return "";
}

std::string FindingText(const Finding& finding) {
  std::string text;
  if (!finding.file.empty()) text += finding.file + ": ";
  if (!finding.tensor.empty()) text += Cat("tensor ", Quoted(finding.tensor), ": ");
  return Shown(text + finding.message);
}

std::vector<std::string> WarningTexts(const VerifyReport& report) {
  return TextsOf(report, Severity::kWarning);
}

std::vector<std::string> ErrorTexts(const VerifyReport& report) {
  return TextsOf(report, Severity::kError);
}

std::string VerifyTotals(const VerifyReport& report) {
  const std::vector<RuleOutcome> outcomes = OutcomesByRule(report);
  const auto failed = static_cast<uint64_t>(
      std::count_if(outcomes.begin(), outcomes.end(),
                    [](const RuleOutcome& outcome) { return outcome.failed(); }));
  std::string text = report.passed()
                         ? Cat("passed: ", Plural(outcomes.size(), "rule"))
                         : Cat("failed: ", failed, " of ", Plural(outcomes.size(), "rule"));
  text += Cat("; ", Plural(report.files, "file"), ", ", Plural(report.tensors, "tensor"), ", ",
              FormatBytes(report.bytes), " read");
  if (report.cold) text += Cat(" (", FormatBytes(report.cold_bytes), " of it past the page cache)");
  if (report.source_bytes > 0)
    text += Cat(", ", FormatBytes(report.source_bytes), " compared with the source");
  return text;
}

std::string VerifyLine(const std::string& directory, const VerifyReport& report) {
  return Cat(Shown(directory), ": ", VerifyTotals(report));
}

std::string VerifyText(const std::string& directory, const VerifyReport& report,
                       VerifyShown shown) {
  Table rules({"", "", ""});
  for (const RuleOutcome& outcome : OutcomesByRule(report)) {
    const size_t count = outcome.findings.size();
    const char* const state = outcome.failed() ? "FAIL" : outcome.warned() ? "warn" : "ok";
    if (shown == VerifyShown::kAllRules || outcome.failed() || outcome.warned())
      rules.Row({state, outcome.rule, count == 0 ? "" : Plural(count, "finding")});
  }
  // The headings are empty, so their line is dropped.
  std::string text = rules.empty() ? "" : rules.Render().substr(1) + "\n";
  for (const Finding& finding : report.findings) {
    text +=
        Cat(SeverityName(finding.severity), ": ", finding.rule, ": ", FindingText(finding), "\n");
  }
  text += Cat(report.findings.empty() ? "" : "\n", VerifyLine(directory, report), "\n");
  if (report.manifest_sha256.empty()) return text;
  return text + Cat("distribution.json sha256:", report.manifest_sha256, "\n");
}

CiReport VerifyCi(const std::string& directory, const VerifyReport& report) {
  const char* file =
      manifest::IsNodeDirectory(directory) ? manifest::kNodeFile : manifest::kManifestFile;
  return {"verify", directory, Cat(directory, "/", file), report, VerifyTotals(report)};
}

Json VerifyJson(const std::string& directory, const VerifyReport& report) {
  Json rules = Json::array();
  for (const RuleOutcome& outcome : OutcomesByRule(report)) {
    rules.push_back({{"rule", outcome.rule},
                     {"passed", !outcome.failed()},
                     {"findings", outcome.findings.size()}});
  }
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"severity", SeverityName(finding.severity)},
                        {"rule", finding.rule},
                        {"file", finding.file},
                        {"tensor", finding.tensor},
                        {"message", finding.message}});
  }
  return {{"distribution", directory},
          {"passed", report.passed()},
          {"rules", std::move(rules)},
          {"findings", std::move(findings)},
          {"files", report.files},
          {"tensors", report.tensors},
          {"bytes", report.bytes},
          {"source_bytes", report.source_bytes},
          {"cold", report.cold},
          {"cold_bytes", report.cold_bytes},
          {"manifest_sha256", report.manifest_sha256}};
}

}  // namespace moepack::cli
