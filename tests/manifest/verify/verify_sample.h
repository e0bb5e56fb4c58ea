// Shared by the tests of verify: the broken rules, and all findings as text.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "fixtures/temp_dir.h"
#include "manifest/verify/verify.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {

using Rules = std::set<std::string>;

inline Rules BrokenRules(const VerifyReport& report) {
  Rules rules;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kError) rules.insert(finding.rule);
  }
  return rules;
}

inline std::string TextOf(const VerifyReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text +=
        Cat(finding.rule, " | ", finding.file, " | ", finding.tensor, " | ", finding.message, "\n");
  }
  return text;
}

inline VerifyReport Verify(const std::filesystem::path& directory,
                           const VerifyOptions& options = {}) {
  auto report = VerifyDistribution(directory.string(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : VerifyReport();
}

inline VerifyReport VerifySample(const sample::Distribution& made,
                                 const VerifyOptions& options = {}) {
  const fixtures::TempDir dir;
  made.WriteTo(dir.path());
  return Verify(dir.path(), options);
}

inline constexpr const char* kTrunk = "trunk/trunk.safetensors";
using sample::kGroup1;

}  // namespace moepack::manifest
