// verify --sample and --resume: a share of the tensors, and a verification that resumes.
#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "manifest/verify/proved_files.h"
#include "manifest/verify/sampled_tensors.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Lt;

// A trunk of ten tensors of a megabyte each.
BundleRecord LargeBundle() {
  BundleRecord bundle;
  bundle.file = "trunk/trunk.gguf";
  for (size_t i = 0; i < 10; ++i) {
    TensorRecord tensor;
    tensor.name = Cat("tensor.", i);
    tensor.offset = i << 20;
    tensor.bytes = 1u << 20;
    bundle.tensors.push_back(tensor);
  }
  bundle.size = 10u << 20;
  return bundle;
}

VerifyOptions Sample(uint32_t per_mille, uint64_t seed = 0) {
  VerifyOptions options;
  options.sample = per_mille;
  options.seed = seed;
  return options;
}

TEST(SampledTensors, HoldTheShareOfTheBytesAndAtLeastOneTensor) {
  const BundleRecord bundle = LargeBundle();
  EXPECT_EQ(SampledTensors(bundle, Sample(1)).size(), 1u);
  EXPECT_EQ(SampledTensors(bundle, Sample(100)).size(), 1u);
  EXPECT_EQ(SampledTensors(bundle, Sample(101)).size(), 2u);
  EXPECT_EQ(SampledTensors(bundle, Sample(500)).size(), 5u);
  EXPECT_EQ(SampledTensors(bundle, Sample(999)).size(), 10u);
}

TEST(SampledTensors, ALargerShareIncludesASmallerOne) {
  const BundleRecord bundle = LargeBundle();
  const std::vector<size_t> few = SampledTensors(bundle, Sample(300));
  const std::vector<size_t> many = SampledTensors(bundle, Sample(600));
  EXPECT_EQ(few.size(), 3u);
  EXPECT_EQ(many.size(), 6u);
  EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end()));
}

TEST(SampledTensors, ReachEveryTensorOverManySeeds) {
  const BundleRecord bundle = LargeBundle();
  std::set<size_t> reached;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const size_t index : SampledTensors(bundle, Sample(100, seed))) reached.insert(index);
  EXPECT_EQ(reached.size(), 10u);
}

TEST(SampledTensors, AreNotUsedForSmallFilesOrFilesWithoutTensors) {
  BundleRecord bundle = LargeBundle();
  EXPECT_TRUE(IsSampled(&bundle, bundle.size, Sample(100)));
  EXPECT_FALSE(IsSampled(&bundle, bundle.size, Sample(1000)));
  EXPECT_FALSE(IsSampled(&bundle, kAlwaysWholeBytes, Sample(100)));
  EXPECT_FALSE(IsSampled(nullptr, bundle.size, Sample(100)));
  bundle.tensors.clear();
  EXPECT_FALSE(IsSampled(&bundle, bundle.size, Sample(100)));
}

// tiny-moe in three groups: files of a few megabytes.
class VerifySampled : public testing::Test {
 protected:
  void SetUp() override {
    const auto report = tiny::Write(dir_ / "d", tiny::Only());
    ASSERT_TRUE(report) << report.error().message;
    const auto manifest = ReadManifest((dir_ / "d").string());
    ASSERT_TRUE(manifest) << manifest.error().message;
    for (const BundleRecord& bundle : manifest->bundles)
      if (bundle.file == kTrunk) trunk_ = bundle;
    ASSERT_GT(trunk_.tensors.size(), 3u);
  }
  // Changes one byte in the middle of a tensor of the trunk.
  void Damage(size_t tensor) {
    const TensorRecord& record = trunk_.tensors[tensor];
    std::string bytes = fixtures::ReadFile(dir_ / "d" / kTrunk);
    bytes[record.offset + record.bytes / 2] ^= 1;
    fixtures::WriteFile(dir_ / "d" / kTrunk, bytes);
  }
  VerifyReport Run(const VerifyOptions& options) { return Verify(dir_ / "d", options); }
  VerifyOptions Resume() {
    VerifyOptions options;
    options.resume_file = dir_ / "notes";
    return options;
  }

  fixtures::TempDir dir_;
  BundleRecord trunk_;
};

TEST_F(VerifySampled, ReadsLessAndReportsWhatItRead) {
  const VerifyReport whole = Run({}), part = Run(Sample(100));
  EXPECT_TRUE(part.passed()) << TextOf(part);
  EXPECT_THAT(part.bytes, Lt(whole.bytes / 2));
  EXPECT_THAT(TextOf(part), HasSubstr("sample-read"));
  EXPECT_THAT(TextOf(part), HasSubstr("the SHA-256 of these files was not compared"));
  EXPECT_THAT(TextOf(whole), testing::Not(HasSubstr("sample-read")));
}

TEST_F(VerifySampled, FindsDamageInATensorThatItReads) {
  const std::vector<size_t> chosen = SampledTensors(trunk_, Sample(100));
  Damage(chosen.back());
  const VerifyReport report = Run(Sample(100));
  EXPECT_THAT(BrokenRules(report), ElementsAre("tensor-xxh3"));
  EXPECT_THAT(TextOf(report), HasSubstr(trunk_.tensors[chosen.back()].name));
}

TEST_F(VerifySampled, KeepsItsNotesUntilAMissingOrTruncatedFileIsBack) {
  const std::string whole = fixtures::ReadFile(dir_ / "d" / kTrunk);
  for (const bool missing : {true, false}) {
    if (missing) {
      fs::remove(dir_ / "d" / kTrunk);
    } else {
      fs::resize_file(dir_ / "d" / kTrunk, whole.size() - 1);
    }
    EXPECT_FALSE(Run(Resume()).passed());
    EXPECT_TRUE(fs::exists(dir_ / "notes"));
    fixtures::WriteFile(dir_ / "d" / kTrunk, whole);
    const VerifyReport again = Run(Resume());
    EXPECT_TRUE(again.passed()) << TextOf(again);
    EXPECT_EQ(again.bytes, whole.size()) << "the other files were read again";
    EXPECT_FALSE(fs::exists(dir_ / "notes"));
  }
}

TEST_F(VerifySampled, MissesDamageElsewhereThatAWholeRunFinds) {
  const std::vector<size_t> chosen = SampledTensors(trunk_, Sample(100));
  size_t other = 0;
  while (std::binary_search(chosen.begin(), chosen.end(), other) ||
         trunk_.tensors[other].bytes == 0)
    ++other;
  Damage(other);
  EXPECT_TRUE(Run(Sample(100)).passed());
  EXPECT_THAT(BrokenRules(Run({})), ElementsAre("file-sha256", "tensor-xxh3"));
}

TEST_F(VerifySampled, ResumesWhereARunWasStopped) {
  VerifyOptions options = Resume();
  options.jobs = 1;
  uint64_t steps = 0;
  // Stops after half of the bytes.
  options.progress = [&](uint64_t done, uint64_t total) {
    ++steps;
    if (done * 2 > total) InterruptRequested() = true;
  };
  const auto stopped = VerifyDistribution((dir_ / "d").string(), options);
  InterruptRequested() = false;
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kInterrupted);
  EXPECT_GT(steps, 0u);
  ASSERT_TRUE(std::filesystem::exists(dir_ / "notes"));
  const VerifyReport rest = Run(Resume()), whole = Run({});
  EXPECT_TRUE(rest.passed()) << TextOf(rest);
  EXPECT_GT(rest.bytes, 0u);
  EXPECT_THAT(rest.bytes, Lt(whole.bytes));
  EXPECT_THAT(TextOf(rest), HasSubstr("proved right in an earlier run"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "notes"))
      << "everything is proved, so no notes are kept";
}

TEST_F(VerifySampled, RereadsDamagedAndChangedFiles) {
  Damage(0);
  EXPECT_FALSE(Run(Resume()).passed());
  ASSERT_TRUE(std::filesystem::exists(dir_ / "notes"));
  const VerifyReport again = Run(Resume());
  EXPECT_FALSE(again.passed());
  EXPECT_EQ(again.bytes, trunk_.size) << "only the trunk is read again";
  Damage(0);  // which repairs it
  EXPECT_TRUE(Run(Resume()).passed());
}

TEST_F(VerifySampled, RefusesAFileWithoutNotesAndLeavesItAlone) {
  fixtures::WriteFile(dir_ / "notes", "my diary");
  const auto report = VerifyDistribution((dir_ / "d").string(), Resume());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_THAT(report.error().message, HasSubstr("expected notes of a verification"));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "notes"), "my diary");
}

TEST_F(VerifySampled, IgnoresANoteTruncatedByAKill) {
  {
    auto notes = ProvedFiles::Open(dir_ / "notes");
    ASSERT_TRUE(notes) << notes.error().message;
    ASSERT_TRUE(notes->Add({"a", "1", "x"}));
    ASSERT_TRUE(notes->Add({"b", "2", "y"}));
  }
  const std::string text = fixtures::ReadFile(dir_ / "notes");
  fixtures::WriteFile(dir_ / "notes", text.substr(0, text.size() - 5));
  {
    auto notes = ProvedFiles::Open(dir_ / "notes");
    ASSERT_TRUE(notes) << notes.error().message;
    EXPECT_TRUE(notes->Has({"a", "1", "x"}));
    EXPECT_FALSE(notes->Has({"a", "1", "x", true})) << "it was not read past the page cache";
    EXPECT_FALSE(notes->Has({"b", "2", "y"}));
    ASSERT_TRUE(notes->Add({"b", "2", "y"}));
  }
  auto notes = ProvedFiles::Open(dir_ / "notes");
  ASSERT_TRUE(notes) << notes.error().message;
  EXPECT_TRUE(notes->Has({"b", "2", "y"}));
}

}  // namespace
}  // namespace moepack::manifest
