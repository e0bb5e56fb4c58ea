#include "manifest/document/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "tests/manifest/document/sample.h"
#include "tests/manifest/find_bundle.h"

namespace moepack::manifest {
namespace {

TEST(ManifestTest, FindsBundlesByTheirFile) {
  const sample::Distribution made = sample::Make();
  const BundleRecord* bundle = FindBundle(made.manifest, "groups/001/experts.safetensors");
  ASSERT_NE(bundle, nullptr);
  EXPECT_EQ(bundle->group, 1u);
  EXPECT_EQ(FindBundle(made.manifest, "groups/009/experts.safetensors"), nullptr);
}

TEST(ManifestTest, CountsTheBytesOfARoleAndOfOneGroup) {
  const sample::Distribution made = sample::Make();
  uint64_t groups = 0;
  for (uint32_t group = 0; group < 3; ++group) {
    const uint64_t bytes = made.manifest.BytesOf(Role::kGroup, group);
    EXPECT_EQ(bytes, made.files.at(sample::PathOf(made.manifest.plan, Role::kGroup, group)).size());
    groups += bytes;
  }
  EXPECT_EQ(made.manifest.BytesOf(Role::kGroup), groups);
  EXPECT_EQ(made.manifest.BytesOf(Role::kRemainder), 0u);
}

TEST(ManifestTest, ReadsTheManifestOfADirectory) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  const auto manifest = ReadManifest(dir.path().string());
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->model.family, "example-moe");
}

TEST(ManifestTest, SaysThatADirectoryHasNoManifest) {
  const fixtures::TempDir dir;
  const auto manifest = ReadManifest(dir.path().string());
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Code::kNotFound);
  EXPECT_NE(manifest.error().message.find("distribution.json"), std::string::npos);
}

// A server's directory without a manifest, which stops answering after some requests.
class FailingTree final : public SourceTree {
 public:
  explicit FailingTree(uint64_t answers) : answers_(answers) {}

  const std::string& name() const override { return name_; }
  std::string NameOf(const std::string& file) const override { return name_ + "/" + file; }
  Result<std::vector<std::string>> List(const std::string&, std::string_view) const override {
    SHARD_CHECK(Ask(""));
    return std::vector<std::string>();
  }
  Result<bool> Has(const std::string& file) const override {
    const Status asked = Ask(file);
    return asked ? Result<bool>(false) : Result<bool>(asked.error());
  }
  Result<ByteSourcePtr> Open(const std::string& file) const override {
    if (!absent_.contains(file)) SHARD_CHECK(Ask(file));
    return Error{Code::kNotFound, NameOf(file) + ": open: no such file"};
  }
  std::optional<std::filesystem::path> LocalPath(const std::string&) const override {
    return std::nullopt;
  }
  std::optional<Traffic> traffic() const override { return traffic_; }

 private:
  // A missing file is asked for once.
  Status Ask(const std::string& file) const {
    if (++traffic_.requests <= answers_) {
      absent_.insert(file);
      return Ok();
    }
    ++traffic_.given_up;
    return Error{Code::kUnavailable, NameOf(file) + ": no answer (5 tries)"};
  }

  std::string name_ = "http://host/x";
  uint64_t answers_;
  mutable Traffic traffic_;
  mutable std::set<std::string> absent_;
};

TEST(ManifestTest, AsksAServerThatDoesNotAnswerForNothingElse) {
  const FailingTree tree(0);
  const auto manifest = ReadManifest(tree);
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Code::kUnavailable);
  EXPECT_EQ(manifest.error().message, "http://host/x/distribution.json: no answer (5 tries)");
  EXPECT_EQ(tree.traffic()->requests, 1u);
}

TEST(ManifestTest, StopsLookingForOtherThingsWhereAServerStopsAnswering) {
  for (const uint64_t answers : {1u, 2u, 3u}) {
    const FailingTree tree(answers);
    const auto manifest = ReadManifest(tree);
    ASSERT_FALSE(manifest);
    EXPECT_EQ(manifest.error().code, Code::kNotFound);
    EXPECT_EQ(manifest.error().message, "http://host/x/distribution.json: open: no such file");
    EXPECT_EQ(tree.traffic()->requests, answers + 1);
    EXPECT_EQ(tree.traffic()->given_up, 1u);
  }
}

TEST(VersionsTest, AreDigestsOfWhatTheyIdentify) {
  const Plan plan = sample::MakePlan();
  const Versions versions = ComputeVersions("0123456789abcdef", plan);
  EXPECT_EQ(versions.model, "0123456789abcdef");
  // By hand from docs/distribution-format.md, "Versions".
  const std::string partition =
      R"({"scheme":"contiguous","uniform":true,"groups":[)"
      R"({"experts":{"*":"0-1"},"fill":{"*":"2"}},{"experts":{"*":"2-3"},"fill":{}},)"
      R"({"experts":{"*":"4-5"},"fill":{}}],"remainder":{}})";
  EXPECT_EQ(versions.shard, Sha256Hex("0123456789abcdef" + partition).substr(0, 16));
  const std::string overlays = R"([{"version":"generalists-1","parent":null,"experts":{"*":"0"}}])";
  EXPECT_EQ(versions.replica, Sha256Hex("0123456789abcdef" + overlays).substr(0, 16));
}

TEST(VersionsTest, ChangeOnlyWithWhatTheyIdentify) {
  const Versions before = ComputeVersions("0123456789abcdef", sample::MakePlan());
  Plan plan = sample::MakePlan();
  plan.overlays[0].experts_by_layer[1] = {0, 5};
  const Versions overlay = ComputeVersions("0123456789abcdef", plan);
  EXPECT_EQ(overlay.shard, before.shard);
  EXPECT_NE(overlay.replica, before.replica);
  plan = sample::MakePlan();
  std::swap(plan.groups[1], plan.groups[2]);
  const Versions partition = ComputeVersions("0123456789abcdef", plan);
  EXPECT_NE(partition.shard, before.shard);
  EXPECT_EQ(partition.replica, before.replica);
  EXPECT_NE(ComputeVersions("0123456789abcdee", sample::MakePlan()).shard, before.shard);
}

TEST(OwnFiles, AreTheSideFilesBundlesAndAssets) {
  Manifest manifest;
  manifest.bundles.resize(1);
  manifest.bundles[0].file = "trunk/trunk.gguf";
  manifest.assets.push_back({"assets/config.json", 2, ""});
  EXPECT_THAT(OwnFiles(manifest), testing::UnorderedElementsAre(
                                      "distribution.json", "README.md", "pulled.json",
                                      ".gitattributes", "trunk/trunk.gguf", "assets/config.json"));
}

TEST(VersionsTest, HaveNoReplicaVersionWithoutAnOverlay) {
  Plan plan = sample::MakePlan();
  plan.overlays.clear();
  EXPECT_EQ(ComputeVersions("0123456789abcdef", plan).replica, "");
}

}  // namespace
}  // namespace moepack::manifest
