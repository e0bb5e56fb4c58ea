#include "manifest/verify/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "fixtures/temp_dir.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

TEST(VerifyTest, PassesAGoodDistributionAndSaysWhatItChecked) {
  const sample::Distribution made = sample::Make();
  const VerifyReport report = VerifySample(made);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  EXPECT_TRUE(report.findings.empty()) << TextOf(report);
  EXPECT_EQ(report.files, 6u);
  EXPECT_EQ(report.tensors, 3u + 7 + 5 + 5 + 3);
  uint64_t bytes = 0;
  for (const auto& [file, text] : made.files) bytes += text.size();
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(report.rules, (std::vector<std::string>{"manifest-schema",
                                                    "expert-accounted",
                                                    "no-duplicate-experts",
                                                    "fill-not-owned",
                                                    "overlay-consistent",
                                                    "eligible-at-least-top-k",
                                                    "uniform",
                                                    "versions",
                                                    "part-files-complete",
                                                    "expert-ids-in-range",
                                                    "trunk-has-no-experts",
                                                    "bundle-holds-its-experts",
                                                    "files-present",
                                                    "no-links-outside",
                                                    "no-stray-files",
                                                    "file-size",
                                                    "container-header",
                                                    "file-readable",
                                                    "file-sha256",
                                                    "tensor-xxh3",
                                                    "assets-sha256"}));
}

TEST(VerifyTest, IsAnErrorWithoutAManifest) {
  const fixtures::TempDir dir;
  const auto report = VerifyDistribution(dir.path().string(), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kNotFound);
}

TEST(VerifyTest, IsAnErrorForANewerMajorVersion) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "distribution.json",
                      R"({"format": "moepack-distribution", "format_version": "2.0"})");
  const auto report = VerifyDistribution(dir.path().string(), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported);
}

TEST(VerifyTest, FindsAManifestThatCannotBeRead) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "distribution.json", "{\"format\": ");
  const VerifyReport report = Verify(dir.path());
  EXPECT_EQ(BrokenRules(report), Rules{"manifest-schema"});
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.rules, std::vector<std::string>{"manifest-schema"});
}

TEST(VerifyTest, NamesTheFileOfABrokenSchemaOnce) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "distribution.json",
                      R"({"format": "moepack-distribution", "format_version": "1.0"})");
  const VerifyReport report = Verify(dir.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].file, "distribution.json");
  EXPECT_EQ(report.findings[0].message.find("distribution.json"), std::string::npos)
      << report.findings[0].message;
}

// One change of the sample that breaks one rule, and the text of its finding.
struct Breakage {
  const char* rule;
  std::function<void(sample::Distribution&)> change;
  const char* message;
};

const std::vector<Breakage>& Breakages() {
  // Long because it is a table.
  using D = sample::Distribution;
  static const std::vector<Breakage> list = {
      {"expert-accounted",
       [](D& d) {
         d.manifest.plan.groups[2].owned[1] = {4};
         d.manifest.plan.groups[2].fill[1] = {5};
         d.UpdateVersions();
       },
       "layer 1: expected every expert in a group or the remainder, found 5 in none"},
      {"no-duplicate-experts",
       [](D& d) {
         d.manifest.plan.groups[0].owned[1] = {0, 1, 2};
         d.manifest.plan.groups[0].fill.erase(1);
         d.UpdateVersions();
       },
       "layer 1: expected every expert in one group or the remainder, found 2 in several"},
      {"fill-not-owned",
       [](D& d) {
         d.manifest.plan.groups[0].fill[1] = {1, 2};
         d.UpdateVersions();
       },
       "group 0, layer 1: fill: expected experts of other groups, found 1"},
      {"overlay-consistent",
       [](D& d) {
         d.manifest.plan.overlays[0].parent = "generalists-1";
         d.UpdateVersions();
       },
       "overlay \"generalists-1\": parent: expected the name of another version, found "
       "\"generalists-1\""},
      {"overlay-consistent",
       [](D& d) {
         d.manifest.plan.overlays[0].fill = {{{1, {0}}}, {}, {}};
         d.UpdateVersions();
       },
       "overlay generalists-1, group 0, layer 1: fill: expected experts of other groups that are "
       "not in the overlay, found 0"},
      {"overlay-consistent",
       [](D& d) {
         d.manifest.plan.overlays[0].fill = {{{1, {0}}}, {}};
         d.UpdateVersions();
       },
       "overlay generalists-1: fill: expected one entry for each of the 3 groups, found 2"},
      {"overlay-consistent",
       [](D& d) { d.manifest.plan.overlays.push_back(d.manifest.plan.overlays[0]); },
       "overlay \"generalists-1\": version: expected once, found twice"},
      {"eligible-at-least-top-k",
       [](D& d) { d.manifest.plan.top_k[2] = d.manifest.model.top_k[2] = 4; },
       "group 0, layer 2: eligible experts: expected at least 4 (top-k), found 3"},
      {"uniform",
       [](D& d) {
         Plan plan = sample::MakePlan();
         plan.groups[0].fill.clear();
         d = sample::Make(plan);
       },
       "group 1, layer 1: eligible experts: expected 2 as in every group and layer, found 3"},
      {"versions", [](D& d) { d.manifest.versions.shard = "00000000deadbeef"; },
       "found \"00000000deadbeef\""},
      {"versions", [](D& d) { d.manifest.versions.replica = ""; }, "replica version: expected"},
      {"part-files-complete", [](D& d) { d.Remove(kGroup1); },
       "parts: expected a file for each, found none for group 1"},
      {"trunk-has-no-experts", [](D& d) { d.Bundle(kTrunk).tensors[1].expert_ids = {0}; },
       "experts: expected none in the trunk, found 0"},
      {"trunk-has-no-experts",
       [](D& d) {
         d.Remove(kGroup1);
         auto tensors = sample::ExpertTensors(d.manifest.plan, Role::kGroup, 1);
         tensors.push_back({{"lm_head.weight", "U8", {2}, "ab"}, std::nullopt, {}});
         sample::AddBundle(d, Role::kGroup, 1, tensors);
       },
       "layer: expected one in group files, found none"},
      {"bundle-holds-its-experts",
       [](D& d) {
         d.Remove(kGroup1);
         auto tensors = sample::ExpertTensors(d.manifest.plan, Role::kGroup, 1);
         tensors.erase(tensors.begin(), tensors.begin() + 2);
         sample::AddBundle(d, Role::kGroup, 1, tensors);
       },
       "group 1, layer 1: experts: expected \"2-3\", found \"3\""},
      {"bundle-holds-its-experts",
       [](D& d) {
         d.Remove(kGroup1);
         auto tensors = sample::ExpertTensors(d.manifest.plan, Role::kGroup, 1);
         tensors.erase(tensors.begin());
         sample::AddBundle(d, Role::kGroup, 1, tensors);
       },
       "group 1, layer 1, expert 2: tensor \"model.layers.*.mlp.experts.*.up_proj.weight\": "
       "expected once, found 0 times"},
      {"bundle-holds-its-experts",
       [](D& d) {
         const auto tensors = sample::ExpertTensors(d.manifest.plan, Role::kGroup, 1);
         sample::AddBundle(d, Role::kGroup, 1, {tensors[0]}, "groups/001/more.safetensors");
       },
       "expected once, found 2 times"},
      {"files-present", [](D& d) { d.files.erase(kGroup1); }, "expected a file of "},
      {"files-present",
       [](D& d) {
         d.files.erase(kGroup1);
         d.files[std::string(kGroup1) + "/x"] = "a directory in its place";
       },
       "found something else"},
      {"file-size", [](D& d) { d.files[kGroup1] += 'x'; }, "size: expected"},
      {"file-size", [](D& d) { d.files["assets/config.json"] = ""; }, "found 0"},
      {"container-header", [](D& d) { d.Bundle(kGroup1).tensors[0].dtype = "F16"; },
       "header: expected F16 [4, 8], 64 bytes at"},
      {"container-header",
       [](D& d) {
         d.Bundle(kTrunk).tensors[0].shape = {8, 32};
       },
       "header: expected BF16 [8, 32]"},
      {"container-header", [](D& d) { d.Bundle(kTrunk).tensors[0].name = "model.other"; },
       "tensor: expected in the file's header, found none"},
      {"container-header", [](D& d) { d.Bundle(kTrunk).tensors.pop_back(); },
       "tensor: expected in the manifest, found only in the file"},
      {"container-header", [](D& d) { d.Bundle(kTrunk).format = "zip"; },
       "format: expected safetensors or gguf, found \"zip\""},
      {"file-sha256", [](D& d) { d.Bundle(kTrunk).sha256 = std::string(64, '0'); },
       "SHA-256: expected 0000"},
      {"tensor-xxh3", [](D& d) { d.Bundle(kTrunk).tensors[0].xxh3 = std::string(32, '0'); },
       "XXH3-128: expected 0000"},
      {"tensor-xxh3", [](D& d) { d.Bundle(kTrunk).tensors[2].xxh3 = std::string(32, '0'); },
       "XXH3-128: expected 0000"},
      {"assets-sha256", [](D& d) { d.files["assets/config.json"] = "{} "; }, "SHA-256: expected"},
  };
  return list;
}

TEST(VerifyTest, FindsEachBrokenRuleAndNothingElse) {
  for (const Breakage& breakage : Breakages()) {
    SCOPED_TRACE(Cat(breakage.rule, ": ", breakage.message));
    sample::Distribution made = sample::Make();
    breakage.change(made);
    const VerifyReport report = VerifySample(made);
    EXPECT_EQ(BrokenRules(report), Rules{breakage.rule}) << TextOf(report);
    EXPECT_FALSE(report.passed());
    EXPECT_NE(TextOf(report).find(breakage.message), std::string::npos) << TextOf(report);
  }
}

// Packs the first projection of the group's first `count` experts; the others stay as they are.
std::vector<sample::Tensor> PartlyPacked(const Plan& plan, size_t count) {
  std::vector<sample::Tensor> tensors = sample::ExpertTensors(plan, Role::kGroup, 1);
  std::vector<sample::Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    sample::Tensor& tensor = tensors[i];
    if (i % 2 == 0 && i / 2 < count && tensor.layer == 1u) {
      const std::string stem = tensor.raw.name.substr(0, tensor.raw.name.rfind('.'));
      out.push_back({{stem + ".scales", "F16", {1}, "ab"}, tensor.layer, tensor.experts});
      tensor.raw = {stem + ".qweight", "I32", {1}, "abcd"};
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

TEST(VerifyTest, AcceptsExpertsThatAreStoredInTwoWays) {
  sample::Distribution made = sample::Make();
  made.Remove(kGroup1);
  sample::AddBundle(made, Role::kGroup, 1, PartlyPacked(made.manifest.plan, 1));
  const VerifyReport report = VerifySample(made);
  EXPECT_TRUE(report.passed()) << TextOf(report);
}

TEST(VerifyTest, FindsAMissingCompanionOfExpertsThatAreStoredInTwoWays) {
  sample::Distribution made = sample::Make();
  made.Remove(kGroup1);
  std::vector<sample::Tensor> tensors = PartlyPacked(made.manifest.plan, 2);
  tensors.erase(tensors.begin());
  sample::AddBundle(made, Role::kGroup, 1, tensors);
  const VerifyReport report = VerifySample(made);
  EXPECT_EQ(BrokenRules(report), Rules{"bundle-holds-its-experts"}) << TextOf(report);
  EXPECT_NE(TextOf(report).find("expert 2: tensor \"model.layers.*.mlp.experts.*.up_proj.scales\": "
                                "expected once, found 0 times"),
            std::string::npos)
      << TextOf(report);
}

TEST(VerifyTest, FindsAnOverlayFileThatBelongsToNoVersion) {
  sample::Distribution made = sample::Make();
  made.Remove("overlays/generalists-1/experts.safetensors");
  sample::AddBundle(made, Role::kOverlay, std::nullopt,
                    sample::ExpertTensors(made.manifest.plan, Role::kOverlay, std::nullopt),
                    "overlays/other/experts.safetensors");
  const VerifyReport report = VerifySample(made);
  EXPECT_TRUE(BrokenRules(report).contains("overlay-consistent"));
  EXPECT_NE(TextOf(report).find("overlay: expected a file below \"overlays/generalists-1/\", found "
                                "\"overlays/other/experts.safetensors\""),
            std::string::npos)
      << TextOf(report);
  EXPECT_NE(TextOf(report).find("found none for overlay generalists-1"), std::string::npos);
}

TEST(VerifyTest, FindsIdsThatTheLayerLacks) {
  sample::Distribution made = sample::Make();
  made.Bundle(kGroup1).tensors[0].expert_ids = {6};
  made.Bundle(kGroup1).tensors[1].layer = 0;
  const VerifyReport report = VerifySample(made);
  // What the file does not hold itself is missing as well.
  EXPECT_EQ(BrokenRules(report), (Rules{"expert-ids-in-range", "bundle-holds-its-experts"}));
  EXPECT_NE(TextOf(report).find("experts: expected numbers below 6, found 6"), std::string::npos);
  EXPECT_NE(TextOf(report).find("layer: expected a layer with experts, found 0"),
            std::string::npos);
}

TEST(VerifyTest, AcceptsAPartialDistribution) {
  sample::Distribution made = sample::Make();
  made.Remove(kGroup1);
  made.Remove("groups/002/experts.safetensors");
  made.manifest.complete = false;
  const VerifyReport report = VerifySample(made);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].severity, Severity::kNote);
  EXPECT_EQ(report.findings[0].message, "a part of a distribution; absent: group 1, group 2");
}

TEST(VerifyTest, NamesTwentyFindingsOfARuleAndCountsTheRest) {
  sample::Distribution made = sample::Make();
  for (BundleRecord& bundle : made.manifest.bundles) {
    for (TensorRecord& tensor : bundle.tensors) tensor.xxh3 = std::string(32, '0');
  }
  const VerifyReport report = VerifySample(made);
  ASSERT_EQ(report.findings.size(), 21u) << TextOf(report);
  EXPECT_EQ(report.findings.back().message, "and 3 more");
  EXPECT_EQ(report.findings.back().rule, "tensor-xxh3");
  EXPECT_FALSE(report.passed());
}

}  // namespace
}  // namespace moepack::manifest
