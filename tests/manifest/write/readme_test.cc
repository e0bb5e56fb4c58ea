#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manifest/write/bundle.h"
#include "tests/manifest/document/sample.h"
#include "tests/manifest/find_bundle.h"

namespace moepack::manifest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(DistributionReadme, NamesTheModelAndItsVersions) {
  const Manifest manifest = sample::Make().manifest;
  const std::string text = DistributionReadme(manifest);
  EXPECT_THAT(text, StartsWith("---\nbase_model: \"example/tiny\"\n"));
  EXPECT_THAT(text, HasSubstr("\n---\n# example/tiny, split into 3 expert groups\n"));
  EXPECT_THAT(text, HasSubstr("Made by moepack 0.1.0 from a ExampleMoeForCausalLM (family "
                              "example-moe, 2 layers with experts"));
  EXPECT_THAT(text, HasSubstr("model version `0123456789abcdef`"));
  EXPECT_THAT(text, HasSubstr(Cat("partition `", manifest.versions.shard, "`")));
  EXPECT_THAT(text, HasSubstr(Cat("overlay `generalists-1` (`", manifest.versions.replica, "`)")));
  EXPECT_THAT(text, HasSubstr(", head), one group of experts and the overlay, the experts that "
                              "every node has. A session stays"));
  EXPECT_THAT(text, HasSubstr("\n## Quality of the split\n\nNot measured."));
  EXPECT_THAT(text, Not(HasSubstr("missing here")));
}

TEST(DistributionReadme, ListsEveryPartWithItsFilesAndBytes) {
  const Manifest manifest = sample::Make().manifest;
  const std::string text = DistributionReadme(manifest);
  for (const auto& [part, file] : {std::pair("trunk", "trunk/trunk.safetensors"),
                                   {"group 0", "groups/000/experts.safetensors"},
                                   {"group 2", "groups/002/experts.safetensors"},
                                   {"overlay", "overlays/generalists-1/experts.safetensors"}}) {
    const BundleRecord* bundle = FindBundle(manifest, file);
    ASSERT_NE(bundle, nullptr) << file;
    EXPECT_THAT(
        text, HasSubstr(Cat("| ", part, " | `", file, "` | ", FormatBytes(bundle->size), " |\n")));
  }
  EXPECT_THAT(text, Not(HasSubstr("| remainder |")));
}

TEST(DistributionReadme, ANodeConsistsOfTrunkOverlayAndGroup) {
  const Manifest manifest = sample::Make().manifest;
  const uint64_t everywhere = manifest.BytesOf(Role::kTrunk) + manifest.BytesOf(Role::kOverlay);
  const std::string text = DistributionReadme(manifest);
  for (uint32_t group = 0; group < 3; ++group) {
    const uint64_t bytes = everywhere + manifest.BytesOf(Role::kGroup, group);
    EXPECT_THAT(text, HasSubstr(Cat("\n| ", group, " | 3 | ", FormatBytes(bytes), " |\n")));
  }
}

TEST(DistributionReadme, ShowsCountsThatDifferBetweenLayersAsARange) {
  Plan plan = sample::MakePlan();
  plan.groups[0].fill.clear();
  plan.groups[0].fill[1] = {2, 3};
  plan.uniform = false;
  EXPECT_THAT(DistributionReadme(sample::Make(plan).manifest), HasSubstr("\n| 0 | 2 to 4 | "));
}

TEST(DistributionReadme, MissingPartsHaveNoRow) {
  sample::Distribution made = sample::Make();
  made.Remove("groups/001/experts.safetensors");
  made.manifest.complete = false;
  const std::string text = DistributionReadme(made.manifest);
  EXPECT_THAT(text, HasSubstr("parts are missing here on purpose"));
  EXPECT_THAT(text, AllOf(HasSubstr("| group 0 |"), Not(HasSubstr("| group 1 |"))));
  EXPECT_THAT(text, AllOf(HasSubstr("\n| 0 | "), Not(HasSubstr("\n| 1 | "))));
}

// The commands of the card name an existing group, and the file that a runtime loads first.
TEST(DistributionReadme, SaysHowToRunANode) {
  sample::Distribution made = sample::Make();
  made.Remove("groups/000/experts.safetensors");
  EXPECT_THAT(DistributionReadme(made.manifest),
              HasSubstr("\nmoepack assemble . --group 1 -o ../node-1 "));
  EXPECT_THAT(DistributionReadme(made.manifest),
              HasSubstr("\nmoepack pull REF --group 1 -o pulled --assemble node-1\n```\n"));
  EXPECT_THAT(DistributionReadme(made.manifest), Not(HasSubstr("llama")));
  for (BundleRecord& bundle : made.manifest.bundles) bundle.format = "gguf";
  EXPECT_THAT(DistributionReadme(made.manifest),
              HasSubstr("--assemble node-1\nllama-server -m node-1/node-00001-of-00003.gguf\n"));
}

TEST(DistributionReadme, NamesTheLicenseOfTheSource) {
  sample::Distribution made = sample::Make();
  EXPECT_THAT(DistributionReadme(made.manifest), Not(HasSubstr("license")));
  sample::AddAsset(made, "LICENSE", "Do what you like.\n");
  EXPECT_THAT(DistributionReadme(made.manifest),
              HasSubstr("\n- license of the model: `assets/LICENSE`\n"));
}

TEST(DistributionReadme, EqualManifestsGiveEqualText) {
  EXPECT_EQ(DistributionReadme(sample::Make().manifest),
            DistributionReadme(sample::Make().manifest));
}

TEST(DistributionReadme, SeveralFilesOfAPartShareItsRow) {
  sample::Distribution made = sample::Make();
  sample::AddBundle(made, Role::kTrunk, std::nullopt, {}, "trunk/more.safetensors");
  EXPECT_THAT(DistributionReadme(made.manifest),
              HasSubstr("| trunk | `trunk/trunk.safetensors`, `trunk/more.safetensors` | "));
}

TEST(DistributionReadme, UsesTheFamilyNameWithoutAnIdAndOverlay) {
  Plan plan = sample::MakePlan();
  plan.overlays.clear();
  sample::Distribution made = sample::Make(plan);
  made.manifest.model.id = "";
  const std::string text = DistributionReadme(made.manifest);
  EXPECT_THAT(text, HasSubstr("\n# example-moe, split into 3"));
  EXPECT_THAT(text, HasSubstr(", head) and one group of experts. A session stays"));
  EXPECT_THAT(text, Not(HasSubstr("overlay")));
}

}  // namespace
}  // namespace moepack::manifest
