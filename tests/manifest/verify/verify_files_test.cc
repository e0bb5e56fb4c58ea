#include <gmock/gmock.h>

#include <filesystem>

#include "fixtures/temp_dir.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;

TEST(VerifyFilesTest, FindsMetadataThatContradictsTheManifest) {
  sample::Distribution made = sample::Make();
  // Two groups change places: each file is intact, but states another number.
  std::swap(made.Bundle(kGroup1).group, made.Bundle("groups/002/experts.safetensors").group);
  const VerifyReport report = VerifySample(made);
  EXPECT_EQ(BrokenRules(report), (Rules{"bundle-holds-its-experts", "container-header"}));
  EXPECT_NE(TextOf(report).find("metadata: moepack.group: expected \"2\", found \"1\""),
            std::string::npos)
      << TextOf(report);
}

TEST(VerifyFilesTest, FindsFilesOfAnotherModel) {
  sample::Distribution made = sample::Make();
  made.manifest.model.revision = "";
  EXPECT_TRUE(VerifySample(made).passed());
  made.manifest.versions.model = "00000000deadbeef";
  made.UpdateVersions();
  const VerifyReport report = VerifySample(made);
  EXPECT_EQ(BrokenRules(report), Rules{"container-header"});
  EXPECT_NE(TextOf(report).find("moepack.model: expected \"00000000deadbeef\", found"),
            std::string::npos)
      << TextOf(report);
}

TEST(VerifyFilesTest, FindsAHeaderThatIsNotSafetensors) {
  sample::Distribution made = sample::Make();
  std::string& bytes = made.files[kTrunk];
  for (size_t i = 0; i < 8; ++i) bytes[i] = '\xff';
  made.Bundle(kTrunk).sha256 = Sha256Hex(bytes);
  const VerifyReport report = VerifySample(made);
  EXPECT_EQ(BrokenRules(report), Rules{"container-header"}) << TextOf(report);
}

TEST(VerifyFilesTest, WarnsOfStrayFiles) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  fixtures::WriteFile(dir / "groups/left.tmp", "x");
  fixtures::WriteFile(dir / "README.md", "x");
  const VerifyReport report = Verify(dir.path());
  EXPECT_TRUE(report.passed()) << TextOf(report);
  ASSERT_EQ(report.findings.size(), 1u) << TextOf(report);
  EXPECT_EQ(report.findings[0].rule, "no-stray-files");
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(report.findings[0].file, "groups/left.tmp");
}

TEST(VerifyFilesTest, ASignatureOfTheFilesIsNotStray) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  fs::copy(MOEPACK_SOURCE_DIR "/fixtures/signing/model/model.sig", dir / "model.sig");
  EXPECT_TRUE(Verify(dir.path()).findings.empty());
  fixtures::WriteFile(dir / "model.sig", "mine");
  const VerifyReport report = Verify(dir.path());
  ASSERT_EQ(report.findings.size(), 1u) << TextOf(report);
  EXPECT_EQ(report.findings[0].rule, "no-stray-files");
}

TEST(VerifyFilesTest, RefusesALinkThatLeadsOutAndDoesNotReadIt) {
  const fixtures::TempDir dir, outside;
  sample::Make().WriteTo(dir.path());
  fs::rename(dir / kTrunk, outside / "trunk.safetensors");
  fs::create_symlink(outside / "trunk.safetensors", dir / kTrunk);
  const VerifyReport report = Verify(dir.path());
  EXPECT_EQ(BrokenRules(report), Rules{"no-links-outside"}) << TextOf(report);
  EXPECT_EQ(report.findings[0].file, kTrunk);
}

TEST(VerifyFilesTest, NamesALinkToNothing) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  fs::remove(dir / kTrunk);
  fs::create_symlink("nothing", dir / kTrunk);
  const VerifyReport report = Verify(dir.path());
  EXPECT_EQ(BrokenRules(report), Rules{"files-present"}) << TextOf(report);
  EXPECT_THAT(report.findings[0].message, testing::HasSubstr("bytes, found a link to nothing"));
}

TEST(VerifyFilesTest, RefusesALinkedDirectoryThatLeadsOut) {
  const fixtures::TempDir dir, outside;
  sample::Make().WriteTo(dir.path());
  fs::rename(dir / "trunk", outside / "trunk");
  fs::create_directory_symlink(outside / "trunk", dir / "trunk");
  EXPECT_EQ(BrokenRules(Verify(dir.path())), Rules{"no-links-outside"});
}

TEST(VerifyFilesTest, SaysWhyAFileCannotBeLookedUp) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  fs::remove_all(dir / "trunk");
  fs::create_symlink("trunk", dir / "trunk");
  const VerifyReport report = Verify(dir.path());
  EXPECT_TRUE(BrokenRules(report).contains("files-present"));
  EXPECT_NE(TextOf(report).find("symbolic links"), std::string::npos) << TextOf(report);
}

TEST(VerifyFilesTest, AcceptsLinksInsideAndHardLinks) {
  const fixtures::TempDir dir, outside;
  sample::Make().WriteTo(dir.path());
  fs::rename(dir / kTrunk, dir / "trunk/store");
  fs::create_symlink("store", dir / kTrunk);
  fs::create_hard_link(dir / kGroup1, outside / "copy");
  const VerifyReport report = Verify(dir.path());
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_EQ(TextOf(report).find("no-links-outside"), std::string::npos);
}

}  // namespace
}  // namespace moepack::manifest
