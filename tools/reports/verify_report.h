// The report of a verification, in formats for people and CI systems.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/text/json.h"
#include "manifest/verify/verify.h"
#include "tools/reports/ci_report.h"

namespace moepack::cli {

enum class VerifyShown : uint8_t { kWhatWasFound, kAllRules };
// One line for each rule that failed or warned, or for every rule; then the findings and the
// totals.
std::string VerifyText(const std::string& directory, const manifest::VerifyReport& report,
                       VerifyShown shown);
// "out: passed: 19 rules; ...".
std::string VerifyLine(const std::string& directory, const manifest::VerifyReport& report);
moepack::Json VerifyJson(const std::string& directory, const manifest::VerifyReport& report);
// One test case per rule.
CiReport VerifyCi(const std::string& directory, const manifest::VerifyReport& report);

// What a rule found, for all formats.
struct RuleOutcome {
  std::string rule;
  std::vector<const manifest::Finding*> findings;
  bool failed() const;  // has a finding of kError
  bool warned() const;  // has a finding of kWarning
};
// In the order in which rules were checked. Borrows the report.
std::vector<RuleOutcome> OutcomesByRule(const manifest::VerifyReport& report);

// "error", "warning", "claim", "note".
std::string_view SeverityName(manifest::Severity severity);
// "trunk/trunk.safetensors: tensor "x": <message>".
std::string FindingText(const manifest::Finding& finding);
// The findings that are warnings, or errors: "<rule>: <FindingText>".
std::vector<std::string> WarningTexts(const manifest::VerifyReport& report);
std::vector<std::string> ErrorTexts(const manifest::VerifyReport& report);
// "failed: 1 of 14 rules; 5 files, 340 tensors, 21.5 MB".
std::string VerifyTotals(const manifest::VerifyReport& report);

}  // namespace moepack::cli
