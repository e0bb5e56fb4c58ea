#include "manifest/registry/publish.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class PublishTest : public LayoutSample {
 protected:
  // The error of a publish that must not change index.json.
  Error Refusal(const Reference& to, const PutOptions& options = {}) {
    const std::string before = fixtures::ReadFile(dir_ / "layout/index.json");
    const auto report = PublishTo(to, options);
    EXPECT_FALSE(report);
    const std::string after = fixtures::ReadFile(dir_ / "layout/index.json");
    EXPECT_TRUE(after == before || Json::parse(after)["manifests"].empty());
    return report ? Error{Code::kIo, ""} : report.error();
  }
  static std::vector<std::string> Tags(const StoreReport& report) {
    std::vector<std::string> tags;
    for (const StoreReport::Tag& tag : report.tags) tags.push_back(tag.tag);
    return tags;
  }
};

TEST_F(PublishTest, EqualDistributionsHaveEqualDigestsInAnyLayoutUnderAnyTag) {
  Write("dist");
  Write("again");
  const auto first = PublishTo(Ref("v1", "one"));
  const auto second = PublishTo(Ref("other", "two"), {}, "again");
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->tags.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(first->tags[i].digest, second->tags[i].digest);
}

TEST_F(PublishTest, StoresEveryFileAsABlobNamedByItsDigest) {
  PublishOne();
  const std::map<std::string, std::string> blobs = tiny::Tree(dir_ / "layout/blobs/sha256");
  for (const auto& [name, bytes] : blobs) EXPECT_EQ(Sha256Hex(bytes), name);
  for (const auto& [name, bytes] : tiny::Tree(dir_ / "dist")) {
    EXPECT_TRUE(blobs.contains(Sha256Hex(bytes))) << name;
    EXPECT_EQ(DigestOfLayer(name), "sha256:" + Sha256Hex(bytes)) << name;
  }
}

TEST_F(PublishTest, ViewsShareTheBlobsOfTheSet) {
  Write("dist");
  const auto set = PublishTo(Ref("v1", "set"), {.views = false});
  const auto all = PublishTo(Ref());
  ASSERT_TRUE(set && all);
  EXPECT_THAT(Tags(*set), ElementsAre("v1"));
  EXPECT_THAT(Tags(*all), ElementsAre("v1", "v1-g000", "v1-g001", "v1-g002"));
  EXPECT_EQ(set->digest(), all->digest());
  // Three more manifests and three more configs.
  EXPECT_EQ(all->blobs.size(), set->blobs.size() + 6);
}

TEST_F(PublishTest, ASecondRunWritesNothing) {
  PublishOne();
  const auto before = tiny::Tree(dir_ / "layout");
  const auto again = PublishTo(Ref());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->added_bytes(), 0u);
  for (const StoreReport::Blob& blob : again->blobs) EXPECT_EQ(blob.how, "there");
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
}

TEST_F(PublishTest, BundlesAreLinkedAndSmallFilesCopied) {
  PublishOne();
  EXPECT_EQ(fs::hard_link_count(dir_ / "dist/trunk/trunk.safetensors"), 2u);
  EXPECT_EQ(fs::hard_link_count(dir_ / "dist/assets/config.json"), 1u);
  const auto copied = PublishTo(Ref("v1", "copied"), {.link = manifest::LinkKind::kCopy});
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->digest(), digest_);
  EXPECT_EQ(copied->bytes_by("copy"), copied->added_bytes());
  EXPECT_EQ(fs::hard_link_count(dir_ / "dist/trunk/trunk.safetensors"), 2u);
}

TEST_F(PublishTest, ADryRunWritesNothingAndCountsTheSameBytes) {
  Write("dist");
  const auto dry = PublishTo(Ref(), {.dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_FALSE(fs::exists(dir_ / "layout"));
  const auto real = PublishTo(Ref());
  ASSERT_TRUE(real);
  EXPECT_EQ(dry->added_bytes(), real->added_bytes());
  EXPECT_EQ(dry->digest(), real->digest());
  const auto after = PublishTo(Ref("v2"), {.dry_run = true});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->added_bytes(), 0u);
}

TEST_F(PublishTest, ADryRunRefusesThePlacesThatARealOneRefuses) {
  Write("dist");
  fs::create_directories(dir_ / "other");
  fixtures::WriteFile(dir_ / "other/mine.txt", "mine");
  for (const char* place : {"other", "other/mine.txt", "other/mine.txt/layout"}) {
    const auto dry = PublishTo(Ref("v1", place), {.dry_run = true});
    const auto real = PublishTo(Ref("v1", place));
    ASSERT_FALSE(dry) << place;
    ASSERT_FALSE(real) << place;
    EXPECT_EQ(dry.error().code, real.error().code) << place;
  }
  fs::create_directories(dir_ / "empty");
  EXPECT_TRUE(PublishTo(Ref("v1", "empty"), {.dry_run = true}));
  EXPECT_TRUE(PublishTo(Ref("v1", "new/folders/"), {.dry_run = true}));
}

// On a file system that ignores case the two would be one file, so no reader accepts this.
TEST_F(PublishTest, PathsThatDifferOnlyInCaseAreNotPublished) {
  Write("dist");
  const std::string old = "groups/000/experts.safetensors";
  const std::string other = "GROUPS/001/experts.safetensors";
  fs::create_directories((dir_ / "dist" / other).parent_path());
  fs::rename(dir_ / "dist" / old, dir_ / "dist" / other);
  std::string text = fixtures::ReadFile(dir_ / "dist/distribution.json");
  text.replace(text.find(old), old.size(), other);
  fixtures::WriteFile(dir_ / "dist/distribution.json", text);
  const auto refused = PublishTo(Ref());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("manifest v1: layer"));
  EXPECT_THAT(refused.error().message, HasSubstr("path: expected one that no other layer has"));
  EXPECT_FALSE(fs::exists(dir_ / "layout"));
}

// Same size, other bytes: only the digest reveals it.
TEST_F(PublishTest, ADamagedFileIsAMismatchAndNothingIsPublished) {
  for (const char* file : {"groups/001/experts.safetensors", "assets/config.json"}) {
    for (const char* name : {"dist", "layout"}) fs::remove_all(dir_ / name);
    Write("dist");
    std::string bytes = fixtures::ReadFile(dir_ / "dist" / file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    fixtures::WriteFile(dir_ / "dist" / file, bytes);
    const Error error = Refusal(Ref());
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message, HasSubstr(std::string(file) + ": sha256: expected "));
    EXPECT_THAT(error.hint, HasSubstr("moepack verify"));
  }
}

TEST_F(PublishTest, NoticesMissingFilesAndWrongSizesBeforeWriting) {
  Write("dist");
  const std::string trunk = "dist/trunk/trunk.safetensors";
  fixtures::WriteFile(dir_ / trunk, fixtures::ReadFile(dir_ / trunk) + "x");
  const Error longer = Refusal(Ref());
  EXPECT_EQ(longer.code, Code::kMismatch);
  EXPECT_THAT(longer.message, HasSubstr("trunk.safetensors: file size: expected "));
  fs::remove(dir_ / trunk);
  const Error absent = Refusal(Ref());
  EXPECT_EQ(absent.code, Code::kNotFound);
  EXPECT_THAT(absent.hint, HasSubstr("publish the whole distribution"));
  EXPECT_FALSE(fs::exists(dir_ / "layout"));
}

TEST_F(PublishTest, AnIncompleteDistributionIsPublishedOnRequest) {
  Write("dist", {"trunk", "overlay", "assets", "group:0", "group:2"});
  const Error error = Refusal(Ref());
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("found one that lacks group:1"));
  const auto report = PublishTo(Ref(), {.allow_incomplete = true});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->absent, ElementsAre("group:1"));
  EXPECT_THAT(Tags(*report), ElementsAre("v1", "v1-g000", "v1-g002"));
}

// No node can be made from it, so there is nothing to view.
TEST_F(PublishTest, MakesNoViewsWithoutATrunk) {
  Write("dist", {"overlay", "assets", "group:0"});
  const auto report = PublishTo(Ref(), {.allow_incomplete = true});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Tags(*report), ElementsAre("v1"));
}

TEST_F(PublishTest, MovesATagOnlyOnRequest) {
  PublishOne();
  fs::remove_all(dir_ / "dist");
  Write("dist", {"trunk", "overlay", "assets", "group:0"});
  PutOptions options;
  options.allow_incomplete = true;
  const Error error = Refusal(Ref(), options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("tag \"v1\": expected sha256:"));
  EXPECT_THAT(error.message, HasSubstr("found " + digest_));
  options.force = true;
  const auto moved = PublishTo(Ref(), options);
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(moved->tags[0].before, digest_);
  EXPECT_EQ(Read("layout/index.json")["manifests"][0]["digest"], moved->digest());
}

TEST_F(PublishTest, RepairsADamagedBlob) {
  PublishOne();
  const fs::path blob = BlobPath(DigestOfLayer("assets/config.json"));
  fs::remove(blob);
  fixtures::WriteFile(blob, "x");
  const auto report = PublishTo(Ref());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_THAT(report->warnings[0], HasSubstr("(assets/config.json): what was there had other"));
  EXPECT_EQ(fixtures::ReadFile(blob), fixtures::ReadFile(dir_ / "dist/assets/config.json"));
}

TEST_F(PublishTest, MovingTagsAreMovedWithoutForce) {
  Write("dist");
  ASSERT_TRUE(PublishTo(Ref("v1-o1"), {.moving_tags = {"v1"}}));
  Write("other", {"trunk", "overlay", "assets", "group:0"});
  const PutOptions options = {.allow_incomplete = true, .moving_tags = {"v1"}};
  const auto second = PublishTo(Ref("v1-o2"), options, "other");
  ASSERT_TRUE(second) << second.error().message;
  const auto layout = OciLayout::Open(Path("layout"));
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->FindTag("v1")->digest, second->digest());
  EXPECT_EQ(layout->FindTag("v1-o2")->digest, second->digest());
  EXPECT_NE(layout->FindTag("v1-o1")->digest, second->digest());
  EXPECT_EQ(layout->FindTag("v1-g000")->digest, layout->FindTag("v1-o2-g000")->digest);
  // The fixed tag is not moved.
  EXPECT_THAT(Refusal(Ref("v1-o2")).message, HasSubstr("tag \"v1-o2\": expected sha256:"));
}

TEST_F(PublishTest, RefusesTagsThatAreTheSame) {
  Write("dist");
  for (const std::vector<std::string>& moving :
       {std::vector<std::string>{"v1"}, {"v1-g000"}, {"a", "b", "a"}, {"a", "a-g002"}}) {
    const Error error = Refusal(Ref(), {.moving_tags = moving});
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("expected it once, found it twice"));
  }
  EXPECT_FALSE(fs::exists(dir_ / "layout"));
  EXPECT_TRUE(PublishTo(Ref(), {.views = false, .moving_tags = {"v1-g000"}}));
}

TEST_F(PublishTest, AMovingTagLeavesRoomForThoseOfViews) {
  Write("dist");
  const std::string longest(123, 't');
  const Error error = Refusal(Ref(), {.moving_tags = {longest + "t"}});
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("expected at most 128 characters, found 129"));
  EXPECT_FALSE(fs::exists(dir_ / "layout"));
  EXPECT_TRUE(PublishTo(Ref(), {.moving_tags = {longest}}));
}

TEST_F(PublishTest, NamesAGroupThatIsThere) {
  Write("some", {"trunk", "overlay", "assets", "group:1"});
  Write("none", {"trunk", "overlay", "assets"});
  const PutOptions options = {.views = false, .allow_incomplete = true};
  EXPECT_EQ(PublishTo(Ref("some"), options, "some")->group, 1u);
  EXPECT_EQ(PublishTo(Ref("none"), options, "none")->group, std::nullopt);
}

TEST_F(PublishTest, RefusesReadOnlyPlaces) {
  Write("dist");
  const Error files = Refusal({Reference::Kind::kFiles, "models:v1", "", ""});
  EXPECT_EQ(files.code, Code::kInvalidArgument);
  EXPECT_THAT(files.message, HasSubstr("expected layout:DIR[:tag] or oci://"));
  EXPECT_THAT(files.hint, HasSubstr("name a layout as layout:models:v1, a registry as oci://"));
  const Error web = Refusal({Reference::Kind::kWebLayout, "https://host/models", "v1", ""});
  EXPECT_EQ(web.code, Code::kInvalidArgument);
  EXPECT_THAT(web.hint, HasSubstr("can only be read"));
}

TEST_F(PublishTest, RefusesALayoutInsideTheDistribution) {
  Write("dist");
  EXPECT_EQ(Refusal(Ref("v1", "dist")).code, Code::kInvalidArgument);
  EXPECT_EQ(Refusal(Ref("v1", "dist/layout")).code, Code::kInvalidArgument);
  EXPECT_EQ(Refusal(Ref().With("", "sha256:" + std::string(64, '0'))).code, Code::kInvalidArgument);
  EXPECT_EQ(Refusal(Ref(std::string(125, 'v'))).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace moepack::registry
