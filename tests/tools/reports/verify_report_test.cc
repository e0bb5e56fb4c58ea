#include "tools/reports/verify_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack::cli {
namespace {

using manifest::Severity;
using testing::HasSubstr;

manifest::VerifyReport TwoFindings() {
  manifest::VerifyReport report;
  report.rules = {"manifest-schema", "file-size"};
  report.findings = {
      {Severity::kError, "file-size", "trunk/trunk.safetensors", "", "size: expected 2, found 1"},
      {Severity::kWarning, "no-stray-files", "x.txt", "", "found"}};
  report.files = 2;
  report.tensors = 5;
  report.bytes = 1500;
  return report;
}

constexpr const char* kFindingsAndTotals =
    "\n"
    "error: file-size: trunk/trunk.safetensors: size: expected 2, found 1\n"
    "warning: no-stray-files: x.txt: found\n"
    "\n"
    "out: failed: 1 of 3 rules; 2 files, 5 tensors, 1.50 kB read\n";

TEST(VerifyReport, TextHasOneLinePerRuleThatFailedOrWarnedThenFindingsThenTotals) {
  EXPECT_EQ(VerifyText("out", TwoFindings(), VerifyShown::kWhatWasFound),
            std::string("FAIL  file-size       1 finding\n"
                        "warn  no-stray-files  1 finding\n") +
                kFindingsAndTotals);
}

TEST(VerifyReport, TextHasOneLineForEveryRuleOnRequest) {
  EXPECT_EQ(VerifyText("out", TwoFindings(), VerifyShown::kAllRules),
            std::string("ok    manifest-schema\n"
                        "FAIL  file-size        1 finding\n"
                        "warn  no-stray-files   1 finding\n") +
                kFindingsAndTotals);
}

TEST(VerifyReport, ACleanReportSaysThatItPassedAndWhatWasCompared) {
  manifest::VerifyReport report;
  report.rules = {"manifest-schema"};
  report.source_bytes = 2000;
  EXPECT_EQ(
      VerifyText("out", report, VerifyShown::kWhatWasFound),
      "out: passed: 1 rule; 0 files, 0 tensors, 0 B read, 2.00 kB compared with the source\n");
  EXPECT_EQ(VerifyLine("out", report) + "\n",
            VerifyText("out", report, VerifyShown::kWhatWasFound));
}

TEST(VerifyReport, ShowsBytesReadPastThePageCacheAndTheDigestOfTheManifest) {
  manifest::VerifyReport report;
  report.rules = {"manifest-schema"};
  report.bytes = 2000;
  report.cold = true;
  report.cold_bytes = 1000;
  report.manifest_sha256 = "ab12";
  EXPECT_EQ(VerifyText("out", report, VerifyShown::kAllRules),
            "ok  manifest-schema\n\nout: passed: 1 rule; 0 files, 0 tensors, 2.00 kB read "
            "(1.00 kB of it past the page cache)\ndistribution.json sha256:ab12\n");
  EXPECT_EQ(VerifyJson("out", report)["manifest_sha256"], "ab12");
}

TEST(VerifyReport, JsonNamesRulesAndFindings) {
  const auto json = VerifyJson("out", TwoFindings());
  EXPECT_EQ(json["passed"], false);
  ASSERT_EQ(json["rules"].size(), 3u);
  EXPECT_EQ(json["rules"][1]["rule"], "file-size");
  EXPECT_EQ(json["rules"][1]["passed"], false);
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["file"], "trunk/trunk.safetensors");
}

TEST(VerifyReport, ClaimsAreNamedAndDoNotFail) {
  manifest::VerifyReport report;
  report.rules = {"source-claims"};
  report.findings = {{Severity::kClaim, "source-claims", "", "", "nothing proves model.id"}};
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(VerifyText("out", report, VerifyShown::kWhatWasFound),
              testing::StartsWith("claim: source-claims: nothing proves model.id\n"));
  EXPECT_EQ(VerifyJson("out", report)["findings"][0]["severity"], "claim");
  EXPECT_TRUE(WarningTexts(report).empty());
}

TEST(VerifyReport, NamesFromFilesAreQuoted) {
  EXPECT_EQ(FindingText({Severity::kError, "r", "f", "a\nb", "m"}), "f: tensor \"a\\x0ab\": m");
}

}  // namespace
}  // namespace moepack::cli
