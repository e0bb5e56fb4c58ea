// What verify must notice: one wrong byte anywhere, and a distribution that is valid in itself but
// was made from other weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fixtures/numbers.h"
#include "fixtures/temp_dir.h"
#include "tests/conformance/split_checkpoint.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kFlipsPerFile = 8;

void FlipByte(const fs::path& path, uint64_t offset) {
  std::string bytes = fixtures::ReadFile(path);
  ASSERT_LT(offset, bytes.size());
  bytes[offset] = static_cast<char>(bytes[offset] ^ 0x10);
  ASSERT_TRUE(fixtures::WriteFile(path, bytes));
}

std::set<std::string> FilesWithErrors(const VerifyReport& report) {
  std::set<std::string> files;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kError) files.insert(finding.file);
  }
  return files;
}

class Damage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), source_));
    ASSERT_NO_FATAL_FAILURE(split::Split(source_, distribution_));
  }
  std::vector<std::string> ListedFiles() const {
    std::vector<std::string> files;
    const auto manifest = ReadManifest(distribution_.string());
    EXPECT_TRUE(manifest);
    for (const BundleRecord& bundle : manifest->bundles) files.push_back(bundle.file);
    for (const AssetRecord& asset : manifest->assets) files.push_back(asset.file);
    return files;
  }
  const fixtures::TempDir dir_;
  const fs::path source_ = dir_ / "source";
  const fs::path distribution_ = dir_ / "dist";
};

// distribution.json is what the other files are compared with, and README.md is for people.
TEST_P(Damage, OneWrongByteOfAnyFileIsAnErrorThatNamesTheFile) {
  const std::vector<std::string> files = ListedFiles();
  ASSERT_EQ(files.size(), 4u + 3u);
  ASSERT_TRUE(split::Verify(distribution_, "").passed());
  for (const std::string& file : files) {
    fixtures::Numbers numbers = fixtures::Numbers::For(7, file);
    for (int i = 0; i < kFlipsPerFile; ++i) {
      const uint64_t at = numbers.Next() % fs::file_size(distribution_ / file);
      FlipByte(distribution_ / file, at);
      const VerifyReport report = split::Verify(distribution_, "");
      EXPECT_FALSE(report.passed()) << file << " at " << at;
      EXPECT_EQ(FilesWithErrors(report), std::set<std::string>{file}) << split::Errors(report);
      FlipByte(distribution_ / file, at);
    }
  }
  EXPECT_TRUE(split::Verify(distribution_, "").passed());
}

TEST_P(Damage, AFileOneByteShortOrLongIsAnErrorThatNamesTheFile) {
  for (const std::string& file : ListedFiles()) {
    const std::string bytes = fixtures::ReadFile(distribution_ / file);
    for (const std::string& damaged : {bytes.substr(0, bytes.size() - 1), bytes + '\0'}) {
      fixtures::WriteFile(distribution_ / file, damaged);
      const VerifyReport report = split::Verify(distribution_, "");
      EXPECT_EQ(FilesWithErrors(report), std::set<std::string>{file}) << split::Errors(report);
    }
    fixtures::WriteFile(distribution_ / file, bytes);
  }
}

// Splits a copy of the source with one byte of a tensor changed.
TEST_P(Damage, ADistributionOfOtherWeightsIsValidButDoesNotMatchTheSource) {
  const auto model = MoeModel::Open(source_);
  ASSERT_TRUE(model);
  fs::copy(source_, dir_ / "forged");
  fixtures::Numbers numbers(11);
  for (const ModelTensor& tensor : model->tensors()) {
    const TensorEntry& entry = model->entry(tensor);
    if (entry.bytes == 0 || numbers.Next() % 4 != 0) continue;
    const fs::path file = dir_ / "forged" / model->checkpoint().files()[entry.file].name;
    const uint64_t at = entry.offset + numbers.Next() % entry.bytes;
    FlipByte(file, at);
    ASSERT_NO_FATAL_FAILURE(split::Split(dir_ / "forged", dir_ / "forgery"));
    const VerifyReport alone = split::Verify(dir_ / "forgery", "");
    EXPECT_TRUE(alone.passed()) << split::Errors(alone);
    const VerifyReport against = split::Verify(dir_ / "forgery", source_.string());
    EXPECT_FALSE(against.passed()) << entry.name;
    EXPECT_THAT(split::Errors(against), HasSubstr(entry.name));
    FlipByte(file, at);
    fs::remove_all(dir_ / "forgery");
  }
}

TEST_P(Damage, AssetsOfAnotherModelDoNotMatchTheSource) {
  fs::copy(source_, dir_ / "forged");
  FlipByte(dir_ / "forged/tokenizer.json", 1);
  ASSERT_NO_FATAL_FAILURE(split::Split(dir_ / "forged", dir_ / "forgery"));
  EXPECT_TRUE(split::Verify(dir_ / "forgery", "").passed());
  const VerifyReport against = split::Verify(dir_ / "forgery", source_.string());
  EXPECT_EQ(FilesWithErrors(against), std::set<std::string>{"assets/tokenizer.json"});
}

INSTANTIATE_TEST_SUITE_P(Layouts, Damage, testing::Values("qwen3-moe", "granite-moe"),
                         [](const auto& tested) {
                           return std::string(tested.index == 0 ? "Explicit" : "Packed");
                         });

}  // namespace
}  // namespace moepack::manifest
