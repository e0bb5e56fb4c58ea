// verify --group, --digest and --cold: a copy of one group, the digest of distribution.json, and
// bytes that come from the device.
#include "fixtures/temp_dir.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;

class VerifyGroup : public testing::Test {
 protected:
  VerifyGroup() { sample::Make().WriteTo(dir_.path()); }

  // As a node pulls it: without the files of the other groups.
  void KeepOnly(const std::string& group) {
    for (const char* other : {"000", "001", "002"}) {
      if (group != other) fs::remove_all(dir_ / "groups" / other);
    }
  }
  VerifyReport Check(const std::vector<uint32_t>& groups) const {
    VerifyOptions options;
    options.groups = groups;
    return Verify(dir_.path(), options);
  }

  fixtures::TempDir dir_;
};

TEST_F(VerifyGroup, VerifiesACopyOfTheTrunkAndOneGroup) {
  KeepOnly("001");
  EXPECT_FALSE(Verify(dir_.path()).passed()) << "groups 0 and 2 are not there";
  const VerifyReport report = Check({1});
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_EQ(report.files, 4u) << "trunk, group, overlay, config.json";
  EXPECT_FALSE(Check({0}).passed());
  EXPECT_FALSE(Check({1, 2}).passed());
}

TEST_F(VerifyGroup, IgnoresFilesOfOtherGroups) {
  fixtures::WriteFile(dir_ / "groups/000/experts.safetensors", "damaged");
  const VerifyReport report = Check({1});
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_EQ(TextOf(report), "");
}

TEST_F(VerifyGroup, FindsDamageInSharedFiles) {
  KeepOnly("001");
  for (const char* file : {"trunk/trunk.safetensors", "groups/001/experts.safetensors",
                           "overlays/generalists-1/experts.safetensors", "assets/config.json"}) {
    const std::string bytes = fixtures::ReadFile(dir_ / file);
    std::string damaged = bytes;
    damaged.back() ^= 1;
    fixtures::WriteFile(dir_ / file, damaged);
    const VerifyReport report = Check({1});
    const char* rule = std::string(file).starts_with("assets/") ? "assets-sha256" : "file-sha256";
    EXPECT_TRUE(BrokenRules(report).contains(rule)) << TextOf(report);
    for (const Finding& finding : report.findings) EXPECT_EQ(finding.file, file) << TextOf(report);
    fs::remove(dir_ / file);
    EXPECT_TRUE(BrokenRules(Check({1})).contains("files-present")) << file;
    fixtures::WriteFile(dir_ / file, bytes);
  }
}

TEST_F(VerifyGroup, AGroupThatDoesNotExistIsAnInvalidArgument) {
  VerifyOptions options;
  options.groups = {3};
  const auto report = VerifyDistribution(dir_.path().string(), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_NE(report.error().message.find("group: expected 0 to 2, found 3"), std::string::npos);
}

TEST_F(VerifyGroup, NamesAGroupThatTheManifestLeavesOut) {
  sample::Distribution part = sample::Make();
  part.Remove("groups/001/experts.safetensors");
  part.manifest.complete = false;
  part.WriteTo(dir_.path());
  const VerifyReport report = Check({1});
  EXPECT_EQ(BrokenRules(report), Rules{"part-files-complete"}) << TextOf(report);
  EXPECT_NE(TextOf(report).find("group 1: expected a file in the manifest, found none"),
            std::string::npos);
}

TEST(VerifyDigest, IsReportedForTheManifestAndComparedWithTheExpectedOne) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  const std::string digest = Sha256Hex(fixtures::ReadFile(dir / "distribution.json"));
  VerifyOptions options;
  options.digest = digest;
  const VerifyReport good = Verify(dir.path(), options);
  EXPECT_TRUE(good.passed()) << TextOf(good);
  EXPECT_EQ(good.manifest_sha256, digest);
  EXPECT_EQ(good.rules.front(), "manifest-digest");
  options.digest = std::string(64, 'a');
  const VerifyReport other = Verify(dir.path(), options);
  EXPECT_EQ(BrokenRules(other), Rules{"manifest-digest"});
  EXPECT_NE(TextOf(other).find("expected " + options.digest + ", found " + digest),
            std::string::npos);
}

// Text that parses to the same manifest is still a different file.
TEST(VerifyDigest, FindsEveryFlippedBitOfTheManifest) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  const std::string text = fixtures::ReadFile(dir / "distribution.json");
  VerifyOptions options;
  options.digest = Sha256Hex(text);
  options.digests = false;
  for (size_t i = 0; i < 200; ++i) {
    std::string flipped = text;
    const size_t place = i * 7919 % text.size();
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << i % 8));
    fixtures::WriteFile(dir / "distribution.json", flipped);
    const auto report = VerifyDistribution(dir.path().string(), options);
    EXPECT_FALSE(report && report->passed()) << "bit " << i % 8 << " of byte " << place;
  }
}

TEST(VerifyCold, ReadsTheSameBytesAndCountsThoseFromTheDevice) {
  // Next to the build: /tmp may be in memory, without a device below it.
  const fs::path directory = fs::path(MOEPACK_BINARY).parent_path() / "verify-cold-test";
  fs::remove_all(directory);
  sample::Make().WriteTo(directory);
  VerifyOptions options;
  options.cold = true;
  const VerifyReport report = Verify(directory, options);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_TRUE(report.cold);
  EXPECT_GT(report.bytes, 0u);
  EXPECT_LE(report.cold_bytes, report.bytes);
  if (report.cold_bytes == 0) {
    fs::remove_all(directory);
    GTEST_SKIP() << "this file system has no direct reads";
  }
  EXPECT_EQ(report.cold_bytes, report.bytes) << "some bytes came from the page cache";
  std::string damaged = fixtures::ReadFile(directory / kTrunk);
  damaged.back() ^= 1;
  fixtures::WriteFile(directory / kTrunk, damaged);
  EXPECT_TRUE(BrokenRules(Verify(directory, options)).contains("file-sha256"));
  fs::remove_all(directory);
}

}  // namespace
}  // namespace moepack::manifest
