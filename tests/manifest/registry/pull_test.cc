#include "manifest/registry/pull.h"

#include <gmock/gmock.h>

#include "manifest/registry/list_store.h"
#include "tests/manifest/registry/pull_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(PullTest, FetchesTheFilesOfOneNodeAndTheyVerify) {
  Pulls({1}, Ref());
  ExpectSameFiles();
  EXPECT_TRUE(fs::exists(dir_ / "out" / kGroupFile1));
  EXPECT_FALSE(fs::exists(dir_ / "out/groups/000"));
  EXPECT_TRUE(fs::exists(dir_ / "out/distribution.json"));
  EXPECT_TRUE(fs::exists(dir_ / "out/README.md"));
  EXPECT_TRUE(Verifies({1}));
}

TEST_F(PullTest, AllGroupsGiveTheWholeDistribution) {
  Pulls({0, 1, 2}, Ref());
  EXPECT_TRUE(Files("out") == Files("dist"));
}

TEST_F(PullTest, ASecondPullAddsAGroup) {
  Pulls({1}, Ref());
  const auto more = PullGroups({0}, Ref());
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_TRUE(more->extended);
  for (const PullReport::File& file : more->files)
    EXPECT_EQ(file.there, file.name != kGroupFile0) << file.name;
  ExpectSameFiles();
  EXPECT_TRUE(Verifies({0, 1}));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(PullTest, ReplacesADamagedFileInTheOutput) {
  PullOptions copy;
  copy.link = manifest::LinkKind::kCopy;
  ASSERT_TRUE(PullGroups({1}, Ref(), "out", copy));
  std::string bytes = fixtures::ReadFile(dir_ / "out" / kGroupFile1);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(dir_ / "out" / kGroupFile1);
  fixtures::WriteFile(dir_ / "out" / kGroupFile1, bytes);
  Pulls({1}, Ref());
  ExpectSameFiles();
}

TEST_F(PullTest, ANodeViewGivesTheSameFilesAndNeedsNoGroup) {
  const auto report = PullGroups({}, Ref("v1-g001"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->groups, ElementsAre(1));
  ASSERT_TRUE(PullGroups({1}, Ref(), "set"));
  EXPECT_TRUE(Files("out") == Files("set"));
  EXPECT_THAT(Refusal(Ref("v1-g001"), {0}).message, HasSubstr("group: expected 1, found 0"));
  // It has its own group, whatever else the output has.
  const auto more = PullGroups({}, Ref("v1-g000"));
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_THAT(more->groups, ElementsAre(0));
  EXPECT_EQ(Read("out/pulled.json")["groups"], Json({0, 1}));
  const auto again = PullGroups({}, Ref("v1-g000"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_THAT(again->groups, ElementsAre(0));
}

TEST_F(PullTest, ADigestTakesPrecedenceOverTheTag) {
  Pulls({1}, Ref().With("absent", digest_));
  fs::remove_all(dir_ / "out");
  // Not even index.json has to list it.
  fixtures::WriteFile(dir_ / "layout/index.json", R"({"schemaVersion":2,"manifests":[]})");
  Pulls({1}, Ref().With("", digest_));
  ExpectSameFiles();
}

TEST_F(PullTest, LeavesTheOverlayOutOnRequest) {
  PullOptions options;
  options.overlay = false;
  ASSERT_TRUE(PullGroups({1}, Ref(), "out", options));
  EXPECT_FALSE(fs::exists(dir_ / "out/overlays"));
  EXPECT_TRUE(Read("out/pulled.json")["overlay"].is_null());
  // The output stays as requested.
  Pulls({1}, Ref());
  EXPECT_FALSE(fs::exists(dir_ / "out/overlays"));
  ASSERT_TRUE(PullGroups({1}, Ref(), "with"));
  const std::string version = Read("with/pulled.json")["overlay"];
  EXPECT_NE(version, "");
  options.overlay = true;
  options.overlay_version = version;
  ASSERT_TRUE(PullGroups({1}, Ref(), "out", options));
  EXPECT_EQ(Read("out/pulled.json")["overlay"], version);
  EXPECT_TRUE(Verifies({1}));
}

TEST_F(PullTest, BundlesAreLinkedAndSmallFilesCopied) {
  Pulls({1}, Ref());
  EXPECT_EQ(fs::hard_link_count(dir_ / "out" / kGroupFile1), 3u);  // dist, blob, out
  EXPECT_EQ(fs::hard_link_count(dir_ / "out/assets/config.json"), 1u);
  PullOptions copy;
  copy.link = manifest::LinkKind::kCopy;
  ASSERT_TRUE(PullGroups({1}, Ref(), "copied", copy));
  ExpectSameFiles("copied");
  EXPECT_EQ(fs::hard_link_count(dir_ / "copied" / kGroupFile1), 1u);
}

TEST_F(PullTest, ADryRunWritesNothing) {
  PullOptions options;
  options.dry_run = true;
  const auto dry = PullGroups({1}, Ref(), "out", options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  const auto real = PullGroups({1}, Ref());
  ASSERT_TRUE(real);
  EXPECT_EQ(dry->total_bytes(), real->total_bytes());
  EXPECT_EQ(dry->files.size(), real->files.size());
  EXPECT_EQ(PullGroups({1}, Ref(), "out", options)->there_bytes(), real->total_bytes());
}

TEST_F(PullTest, ReportsThePlanBeforeWritingFiles) {
  PullOptions options;
  size_t files = 0;
  options.planned = [&](const PullReport& plan) {
    files = plan.files.size();
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  };
  ASSERT_TRUE(PullGroups({1}, Ref(), "out", options));
  EXPECT_EQ(files, Files("out").size());
}

TEST_F(PullTest, RefusesMissingGroups) {
  EXPECT_EQ(Refusal(Ref(), {}).code, Code::kInvalidArgument);
  EXPECT_THAT(Refusal(Ref(), {3}).message, HasSubstr("group: expected 0 to 2, found 3"));
  const Error tag = Refusal(Ref("v9"), {1});
  EXPECT_EQ(tag.code, Code::kNotFound);
  EXPECT_THAT(tag.message, HasSubstr("expected \"v9\", found v1, v1-g000, v1-g001, v1-g002"));
  EXPECT_EQ(Refusal(Ref().With("", "sha256:" + std::string(64, '0')), {1}).code, Code::kNotFound);
}

TEST_F(PullTest, PullsTheGroupsOfAnIncompleteSet) {
  Write("part", {"trunk", "overlay", "assets", "group:0"});
  ASSERT_TRUE(PublishTo(Ref("part"), {.allow_incomplete = true}, "part"));
  EXPECT_THAT(Refusal(Ref("part"), {1}).message, HasSubstr("group: expected 0, found 1"));
  Pulls({0}, Ref("part"));
  EXPECT_TRUE(Verifies({0}));
}

TEST_F(PullTest, KeepsAnOutputThatIsSomethingElse) {
  fs::create_directories(dir_ / "out");
  fixtures::WriteFile(dir_ / "out/mine.txt", "mine");
  PullOptions force;
  force.force = true;
  EXPECT_EQ(Refusal(Ref(), {1}).code, Code::kInvalidArgument);
  EXPECT_EQ(Refusal(Ref(), {1}, force).code, Code::kInvalidArgument);
  EXPECT_EQ(fixtures::ReadFile(dir_ / "out/mine.txt"), "mine");
  fs::remove_all(dir_ / "out");
  Write("out", {"trunk", "assets"});
  EXPECT_THAT(Refusal(Ref(), {1}).message, HasSubstr("out already exists"));
  ASSERT_TRUE(PullGroups({1}, Ref(), "out", force));
  ExpectSameFiles();
  EXPECT_EQ(PullGroups({1}, Ref(), "layout/out").error().code, Code::kInvalidArgument);
}

TEST_F(PullTest, TheRequestedOverlayMustMatch) {
  PullOptions options;
  options.overlay_version = "v9";
  const Error error = Refusal(Ref(), {1}, options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("overlay: expected \"v9\", found"));
}

TEST_F(PullTest, PullsFromADistributionDirectory) {
  const Reference files{Reference::Kind::kFiles, Path("dist"), "", ""};
  const auto report = PullGroups({1}, files);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->digest, digest_);  // the digest of what publish makes of it
  ExpectSameFiles();
  EXPECT_TRUE(Verifies({1}));
  std::string bytes = fixtures::ReadFile(dir_ / "dist" / kGroupFile0);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(dir_ / "dist" / kGroupFile0);
  fixtures::WriteFile(dir_ / "dist" / kGroupFile0, bytes);
  const auto damaged = PullGroups({0}, files, "second");
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_THAT(damaged.error().message, HasSubstr(kGroupFile0));
}

TEST_F(PullTest, RefusesWhatIsNeitherAReferenceNorADistribution) {
  const auto absent = PullGroups({1}, {Reference::Kind::kFiles, Path("absent"), "", ""});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("expected a distribution or a reference"));
  const auto layout = PullGroups({1}, {Reference::Kind::kFiles, Path("layout"), "", ""});
  ASSERT_FALSE(layout);
  EXPECT_THAT(layout.error().message, HasSubstr("found an OCI image layout"));
  EXPECT_THAT(layout.error().hint, HasSubstr("name a layout as layout:" + Path("layout")));
}

TEST_F(PullTest, IgnoresForeignLayers) {
  Change([&](Json& manifest) {
    Json layer = AddBlob("something else");
    layer["mediaType"] = "application/x-other";
    layer["annotations"] = {{"org.cncf.model.filepath", "other.bin"}};
    manifest["layers"].push_back(layer);
    manifest["annotations"]["com.example.note"] = "kept";
  });
  Pulls({1}, Ref());
  EXPECT_FALSE(fs::exists(dir_ / "out/other.bin"));
  ExpectSameFiles();
}

TEST_F(PullTest, ListsSetsViewsAndOtherManifests) {
  Json index = Read("layout/index.json");
  Json other = AddBlob("{}");
  other["mediaType"] = "application/vnd.oci.image.index.v1+json";
  index["manifests"].push_back(other);
  fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
  Json signature = AddBlob("{}");
  signature["annotations"] = {
      {"org.opencontainers.image.ref.name", "sha256-" + digest_.substr(7) + ".sig"}};
  signature["mediaType"] = "application/vnd.oci.image.manifest.v1+json";
  index["manifests"].push_back(signature);
  fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
  const auto layout = OciLayout::Open(Path("layout"));
  ASSERT_TRUE(layout);
  const auto all = ListStore(*layout);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 6u);
  EXPECT_TRUE((*all)[5].is_signature);
  EXPECT_EQ((*all)[0].tag, "v1");
  EXPECT_EQ((*all)[0].digest, digest_);
  EXPECT_TRUE((*all)[0].is_set && !(*all)[0].is_view);
  EXPECT_THAT((*all)[0].groups, ElementsAre("000", "001", "002"));
  EXPECT_THAT((*all)[2].groups, ElementsAre("001"));
  EXPECT_TRUE((*all)[2].is_view);
  EXPECT_LT((*all)[2].bytes, (*all)[0].bytes);
  EXPECT_EQ((*all)[0].files, tiny::Names(dir_ / "dist").size());
  EXPECT_FALSE((*all)[4].is_set);
}

TEST_F(PullTest, ListsBrokenManifestsBesideTheOthers) {
  const auto layout = OciLayout::Open(Path("layout"));
  ASSERT_TRUE(layout);
  fixtures::WriteFile(BlobPath(layout->FindTag("v1-g001")->digest), "{}");
  std::filesystem::remove(BlobPath(layout->FindTag("v1-g002")->digest));
  const auto all = ListStore(*layout);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 4u);
  EXPECT_TRUE((*all)[0].is_set && (*all)[0].problem.empty());
  EXPECT_THAT((*all)[2].problem, HasSubstr("expected"));
  EXPECT_FALSE((*all)[2].is_set);
  EXPECT_THAT((*all)[3].problem, HasSubstr("expected"));
}

}  // namespace
}  // namespace moepack::registry
