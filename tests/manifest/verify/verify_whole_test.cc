#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manifest/verify/verify.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {
namespace {

VerifyReport Verify(const std::filesystem::path& directory, bool whole) {
  VerifyOptions options;
  options.whole = whole;
  const auto report = VerifyDistribution(directory.string(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : VerifyReport();
}

TEST(VerifyWhole, APartialDistributionPassesUnlessAWholeOneIsRequired) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(tiny::Write(dir / "part", tiny::Only({"trunk"})));
  EXPECT_TRUE(Verify(dir / "part", false).passed());
  const VerifyReport report = Verify(dir / "part", true);
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.findings.front().message + report.findings.back().message,
              testing::HasSubstr("expected a whole distribution"));
}

TEST(VerifyWhole, AWholeDistributionPasses) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(tiny::Write(dir / "all"));
  const VerifyReport report = Verify(dir / "all", true);
  EXPECT_THAT(report.findings, testing::IsEmpty());
  EXPECT_GT(report.tensors, 0u);
  EXPECT_GT(report.bytes, 0u);
}

}  // namespace
}  // namespace moepack::manifest
