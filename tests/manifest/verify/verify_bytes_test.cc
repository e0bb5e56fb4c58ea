#include "libshard/base/parallel.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

TEST(VerifyBytesTest, FindsAChangedByteInTheTensorAndInTheFile) {
  sample::Distribution made = sample::Make();
  const TensorRecord tensor = made.Bundle(kGroup1).tensors[2];
  made.files[kGroup1][tensor.offset + 5] ^= 1;
  const VerifyReport report = VerifySample(made);
  ASSERT_EQ(report.findings.size(), 2u) << TextOf(report);
  EXPECT_EQ(report.findings[0].rule, "file-sha256");
  EXPECT_EQ(report.findings[0].file, kGroup1);
  EXPECT_EQ(report.findings[1].rule, "tensor-xxh3");
  EXPECT_EQ(report.findings[1].tensor, tensor.name);
}

TEST(VerifyBytesTest, SaysTheSameWithAnyNumberOfJobs) {
  sample::Distribution made = sample::Make();
  for (BundleRecord& bundle : made.manifest.bundles) bundle.sha256 = std::string(64, '0');
  VerifyOptions one, many;
  one.jobs = 1;
  many.jobs = 8;
  const VerifyReport report = VerifySample(made, one);
  EXPECT_EQ(report.findings.size(), 5u);
  EXPECT_EQ(TextOf(report), TextOf(VerifySample(made, many)));
}

TEST(VerifyBytesTest, ReportsProgressUpToAllBytes) {
  uint64_t last = 0, total = 0;
  VerifyOptions options;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  const VerifyReport report = VerifySample(sample::Make(), options);
  EXPECT_EQ(last, report.bytes);
  EXPECT_EQ(total, report.bytes);
}

TEST(VerifyBytesTest, HashesTensorsAcrossChunks) {
  sample::Distribution made = sample::Make();
  // A little more than three mebibytes: tensors begin and end inside chunks, and one covers a whole
  // chunk.
  const auto big = [](const char* name, size_t bytes, uint32_t seed) {
    return sample::Tensor{{name, "U8", {bytes}, sample::Noise(bytes, seed)}, std::nullopt, {}};
  };
  made.Remove(kTrunk);
  sample::AddBundle(made, Role::kTrunk, std::nullopt,
                    {big("a", (1u << 20) - 100, 1), big("b", 10, 2), big("c", (2u << 20) + 77, 3),
                     big("d", 0, 4), big("e", 5000, 5), big("f", 0, 6)});
  const VerifyReport report = VerifySample(made);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  for (const size_t tensor : {0, 1, 2, 4}) {
    const TensorRecord& record = made.Bundle(kTrunk).tensors[tensor];
    char& last = made.files[kTrunk][record.offset + record.bytes - 1];
    last ^= 1;
    EXPECT_EQ(VerifySample(made).findings.back().tensor, record.name);
    last ^= 1;
  }
}

TEST(VerifyBytesTest, StopsWhenInterrupted) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  InterruptRequested() = true;
  const auto report = VerifyDistribution(dir.path().string(), {});
  InterruptRequested() = false;
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInterrupted);
}

TEST(VerifyBytesTest, ReadsNoDataWithoutDigests) {
  sample::Distribution made = sample::Make();
  made.files[kTrunk].back() ^= 1;
  VerifyOptions options;
  options.digests = false;
  const VerifyReport report = VerifySample(made, options);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_EQ(report.bytes, 0u);
  EXPECT_EQ(std::count(report.rules.begin(), report.rules.end(), "file-sha256"), 0);
}

}  // namespace
}  // namespace moepack::manifest
