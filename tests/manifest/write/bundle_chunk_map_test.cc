// Distributions written with a chunk map, and how verify uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/files/cell_digest.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

constexpr uint64_t kCell = 1'000'000;

WriteOptions WithCells(uint64_t cell_bytes = kCell) {
  WriteOptions options = tiny::Only();
  options.pack.cell_bytes = cell_bytes;
  return options;
}

TEST(BundleChunkMapTest, RecordsTheDigestsOfTheCellsOfLargeBundles) {
  const fixtures::TempDir dir;
  const auto report = tiny::Write(dir / "out", WithCells());
  ASSERT_TRUE(report) << report.error().message;
  const auto manifest = ReadManifest((dir / "out").string());
  ASSERT_TRUE(manifest) << manifest.error().message;
  size_t maps = 0;
  for (const BundleRecord& bundle : manifest->bundles) {
    const std::string bytes = fixtures::ReadFile(dir / "out" / bundle.file);
    EXPECT_EQ(bundle.cells.sha256.empty(), bundle.size <= kCell) << bundle.file;
    for (size_t i = 0; i < bundle.cells.sha256.size(); ++i)
      EXPECT_EQ(bundle.cells.sha256[i], Sha256Hex(bytes.substr(i * kCell, kCell)));
    maps += bundle.cells.sha256.empty() ? 0 : 1;
  }
  EXPECT_GT(maps, 0u);
  EXPECT_TRUE(Verify(dir / "out").passed());
}

TEST(BundleChunkMapTest, ChangesNothingButTheManifest) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(tiny::Write(dir / "with", WithCells()));
  ASSERT_TRUE(tiny::Write(dir / "without", WithCells(0)));
  auto with = tiny::Tree(dir / "with"), without = tiny::Tree(dir / "without");
  EXPECT_THAT(with["distribution.json"], HasSubstr("\"cells\""));
  EXPECT_THAT(without["distribution.json"], Not(HasSubstr("\"cells\"")));
  for (auto* files : {&with, &without}) {
    files->erase("distribution.json");
    files->erase("README.md");  // it names the digest of distribution.json
  }
  EXPECT_TRUE(with == without);
}

TEST(BundleChunkMapTest, FindsAWrongCellDigestOfAnIntactFile) {
  sample::Distribution made = sample::Make();
  BundleRecord& bundle = made.Bundle(kGroup1);
  CellSha256 hash(100);
  hash.Update(std::as_bytes(std::span(made.files[kGroup1])));
  ASSERT_EQ(hash.Finish(), bundle.sha256);
  bundle.cells = hash.TakeCells();
  EXPECT_TRUE(VerifySample(made).passed());
  const std::string right = bundle.cells.sha256[2], wrong(64, '0');
  bundle.cells.sha256[2] = wrong;
  const VerifyReport report = VerifySample(made);
  EXPECT_EQ(BrokenRules(report), Rules{"file-sha256"});
  EXPECT_THAT(TextOf(report), HasSubstr("SHA-256 of cell 2 (100 bytes from byte 200): expected " +
                                        wrong + ", found " + right));
}

TEST(BundleChunkMapTest, NamesTheDamagedCellOfAFile) {
  sample::Distribution made = sample::Make();
  BundleRecord& bundle = made.Bundle(kGroup1);
  CellSha256 hash(100);
  hash.Update(std::as_bytes(std::span(made.files[kGroup1])));
  ASSERT_EQ(hash.Finish(), bundle.sha256);
  bundle.cells = hash.TakeCells();
  made.files[kGroup1].back() ^= 1;
  EXPECT_THAT(TextOf(VerifySample(made)),
              HasSubstr(Cat("SHA-256 of cell ", bundle.cells.sha256.size() - 1, " (100 bytes")));
}

}  // namespace
}  // namespace moepack::manifest
