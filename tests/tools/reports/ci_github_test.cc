#include <gtest/gtest.h>

#include "tools/reports/verify_report.h"

namespace moepack::cli {
namespace {

using manifest::Severity;

TEST(VerifyGithub, WritesOneCommandPerFinding) {
  manifest::VerifyReport report;
  report.rules = {"file-size", "note"};
  report.findings = {{Severity::kError, "file-size", "trunk/t.safetensors", "", "expected 2"},
                     {Severity::kWarning, "note", "", "", "no assets"},
                     {Severity::kNote, "note", "", "", "fine"}};
  EXPECT_EQ(GithubText(VerifyCi("out", report)),
            "::error file=out/trunk/t.safetensors,title=moepack verify%3A file-size::"
            "trunk/t.safetensors: expected 2\n"
            "::warning file=out/distribution.json,title=moepack verify%3A note::no assets\n"
            "::notice file=out/distribution.json,title=moepack verify%3A note::fine\n"
            "out: failed: 1 of 2 rules; 0 files, 0 tensors, 0 B read\n");
}

TEST(VerifyGithub, HostileTextCannotStartAnotherCommand) {
  manifest::VerifyReport report;
  report.findings = {{Severity::kError, "r", "a,b:c\n::warning::x", "", "100%\r\n::error::forged"}};
  const std::string text = GithubText(VerifyCi("o", report));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "::error file=o/a%2Cb%3Ac%0A%3A%3Awarning%3A%3Ax,title=moepack verify%3A r::"
            R"(a,b:c\x0a::warning::x: 100%25\x0d\x0a::error::forged)");
}

TEST(VerifyGithub, TheDirectoryInTheLastLineCannotStartACommand) {
  const std::string text = GithubText(VerifyCi("::error::a\n::error::b ##[error]c", {}));
  EXPECT_EQ(text, R"(\x3a:error::a\x0a::error::b ##\x5berror]c)"
                  ": passed: 0 rules; 0 files, 0 tensors, 0 B read\n");
}

}  // namespace
}  // namespace moepack::cli
