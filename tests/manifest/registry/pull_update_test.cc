// Outputs that were pulled before: what their lock decides, and updates.
#include <gmock/gmock.h>

#include "manifest/registry/pull.h"
#include "tests/manifest/registry/pull_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The distribution without one group, as a later one with other bytes would be.
class UpdateTest : public PullTest {
 protected:
  void SetUp() override {
    PullTest::SetUp();
    ASSERT_TRUE(PublishTo(Ref("v1"), {.moving_tags = {"now"}}));
    Write("next", {"trunk", "overlay", "assets", "group:1"});
  }
  void MoveTag() {
    const PutOptions options = {.allow_incomplete = true, .moving_tags = {"now"}};
    ASSERT_TRUE(PublishTo(Ref("v2"), options, "next"));
  }
  PullOptions Updating() const {
    PullOptions options;
    options.update = true;
    return options;
  }
};

TEST_F(UpdateTest, AnOutputStaysAtTheDigestThatWasPulled) {
  Pulls({1}, Ref("now"));
  MoveTag();
  const auto again = PullGroups({0}, Ref("now"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->digest, digest_);
  ASSERT_EQ(again->warnings.size(), 1u);
  EXPECT_THAT(again->warnings[0], HasSubstr("the tag has moved: pulled was " + digest_));
  ExpectSameFiles();
  EXPECT_TRUE(Verifies({0, 1}));
  // The groups of the output are those that were pulled.
  const auto third = PullGroups({}, Ref("now"));
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_THAT(third->groups, ElementsAre(0, 1));
  EXPECT_EQ(third->there_bytes(), third->total_bytes());
}

TEST_F(UpdateTest, AnUpdateFollowsTheTagAndKeepsEqualFiles) {
  Pulls({1}, Ref("now"));
  MoveTag();
  const auto report = PullGroups({}, Ref("now"), "out", Updating());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(report->digest, digest_);
  for (const PullReport::File& file : report->files)
    EXPECT_EQ(file.there, file.name != "distribution.json" && file.name != "README.md")
        << file.name;
  for (const auto& [name, bytes] : Files("out"))
    EXPECT_TRUE(bytes == fixtures::ReadFile(dir_ / "next" / name)) << name;
  EXPECT_TRUE(Verifies({1}));
  EXPECT_EQ(Read("out/pulled.json")["digest"], report->digest);
}

TEST_F(UpdateTest, AnotherDigestNeedsAnUpdate) {
  Pulls({1}, Ref("now"));
  MoveTag();
  const auto refused = PullGroups({1}, Ref("v2"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("out: already exists: expected what "));
  EXPECT_THAT(refused.error().message, HasSubstr(", found " + digest_ + " of layout:"));
  EXPECT_THAT(refused.error().hint, HasSubstr("--update replaces it"));
  EXPECT_TRUE(PullGroups({1}, Ref("v2"), "out", Updating()));
}

// "v1-o1" and "v1-o2" are other tags, and the same model: the groups are those of the lock.
TEST_F(UpdateTest, AnUpdateFromAnotherReferenceKeepsTheGroups) {
  Pulls({1}, Ref("v1"));
  MoveTag();
  const auto report = PullGroups({}, Ref("v2"), "out", Updating());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->groups, ElementsAre(1));
  EXPECT_NE(report->digest, digest_);
  EXPECT_TRUE(Verifies({1}));
  // Without --update the message is about the output.
  const Error error = Refusal(Ref("v1"), {});
  EXPECT_THAT(error.message, HasSubstr("out: already exists: expected what "));
  EXPECT_THAT(error.hint, HasSubstr("--update replaces it"));
}

TEST_F(UpdateTest, AnUpdateFromAnotherReferenceKeepsAnOutputWithoutOverlay) {
  PullOptions without;
  without.overlay = false;
  ASSERT_TRUE(PullGroups({1}, Ref("v1"), "out", without));
  MoveTag();
  const auto report = PullGroups({}, Ref("v2"), "out", Updating());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->overlay);
  EXPECT_FALSE(fs::exists(dir_ / "out/overlays"));
}

TEST_F(UpdateTest, SaysThatTheLockNamesAGroupThatTheNewVersionLacks) {
  Pulls({0}, Ref("v1"));
  MoveTag();  // to a version with group 1 alone
  const Error error = Refusal(Ref("v2"), {}, Updating());
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("group: expected 1, found 0"));
  EXPECT_THAT(error.hint, HasSubstr("out/pulled.json names the groups of the output: --group"));
}

// A pull by digest alone does not lock a tag that was never named.
TEST_F(UpdateTest, AfterADigestATagNeedsAnUpdate) {
  Pulls({1}, Ref().With("", digest_));
  EXPECT_EQ(Read("out/pulled.json")["reference"], "layout:" + Path("layout"));
  MoveTag();
  EXPECT_THAT(Refusal(Ref("now"), {1}).hint, HasSubstr("--update replaces it"));
  EXPECT_TRUE(PullGroups({1}, Ref("now"), "out", Updating()));
}

TEST_F(UpdateTest, ReplacesADamagedFileOfTheOldVersion) {
  PullOptions copy;
  copy.link = manifest::LinkKind::kCopy;
  ASSERT_TRUE(PullGroups({1}, Ref("now"), "out", copy));
  MoveTag();
  std::string bytes = fixtures::ReadFile(dir_ / "out" / kGroupFile1);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(dir_ / "out" / kGroupFile1);
  fixtures::WriteFile(dir_ / "out" / kGroupFile1, bytes);
  ASSERT_TRUE(PullGroups({}, Ref("now"), "out", Updating()));
  EXPECT_TRUE(Verifies({1}));
}

TEST_F(UpdateTest, NamesWhatTheStoreHasLost) {
  Pulls({1}, Ref("now"));
  MoveTag();
  fs::remove(BlobPath(digest_));
  const auto refused = PullGroups({1}, Ref("now"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr(digest_));
  EXPECT_THAT(refused.error().hint, HasSubstr("--update takes what the reference names now"));
}

TEST_F(UpdateTest, NamesADamagedLock) {
  Pulls({1}, Ref("now"));
  fixtures::WriteFile(dir_ / "out/pulled.json", "{}");
  const Error error = Refusal(Ref("now"), {1});
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("pulled.json: version: expected"));
  EXPECT_THAT(error.hint, HasSubstr("remove the file"));
}

TEST_F(UpdateTest, RepairsAnOutputWhoseManifestIsGoneOrDamaged) {
  Pulls({1}, Ref("now"));
  PullOptions force;
  force.force = true;
  for (const PullOptions& options : {PullOptions(), Updating(), force}) {
    fs::remove(dir_ / "out/distribution.json");
    const auto missing = PullGroups({}, Ref("now"), "out", options);
    ASSERT_TRUE(missing) << missing.error().message;
    EXPECT_THAT(missing->groups, ElementsAre(1));
    ExpectSameFiles();
    fs::remove(dir_ / "out/distribution.json");
    fixtures::WriteFile(dir_ / "out/distribution.json", "{");
    const auto damaged = PullGroups({}, Ref("now"), "out", options);
    ASSERT_TRUE(damaged) << damaged.error().message;
    ExpectSameFiles();
    EXPECT_TRUE(Verifies({1}));
  }
  // Nothing is known about a version that is not the one that was pulled.
  MoveTag();
  fs::remove(dir_ / "out/distribution.json");
  const Error error = Refusal(Ref("now"), {1}, Updating());
  EXPECT_THAT(error.message, HasSubstr("but no distribution.json"));
  EXPECT_THAT(error.hint, HasSubstr("the same pull again brings back what is missing"));
}

TEST_F(UpdateTest, ReplacesOnlyWhatWasPulled) {
  MoveTag();
  Write("out");
  const auto before = tiny::Tree(dir_ / "out");
  const Error error = Refusal(Ref("now"), {1}, Updating());
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("out already exists"));
  EXPECT_THAT(error.hint, HasSubstr("--force replaces"));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == before);
}

TEST_F(UpdateTest, NamesTheGroupsThatItLeavesOut) {
  Pulls({0, 1}, Ref("now"));
  const auto same = PullGroups({1}, Ref("now"), "out", Updating());
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_THAT(same->warnings, IsEmpty());
  EXPECT_TRUE(Verifies({0, 1}));
  MoveTag();
  PullOptions dry = Updating();
  dry.dry_run = true;
  for (const PullOptions& options : {dry, Updating()}) {
    const auto report = PullGroups({1}, Ref("now"), "out", options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(report->warnings, ElementsAre(HasSubstr("out: the update leaves out group 0")));
  }
  EXPECT_THAT(PullGroups({1}, Ref("now"), "out", Updating())->warnings, IsEmpty());
}

TEST_F(UpdateTest, NamesAnOverlayInTheLockThatTheSetLacks) {
  Pulls({1}, Ref("now"));
  Json lock = Read("out/pulled.json");
  const std::string overlay = lock["overlay"];
  lock["overlay"] = "other";
  fixtures::WriteFile(dir_ / "out/pulled.json", lock.dump());
  const Error error = Refusal(Ref("now"), {1});
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message,
              HasSubstr("pulled.json: overlay: expected \"" + overlay + "\", found \"other\""));
  EXPECT_THAT(error.hint, HasSubstr("--overlay"));
  PullOptions chosen;
  chosen.overlay_version = overlay;
  EXPECT_TRUE(PullGroups({1}, Ref("now"), "out", chosen));
  EXPECT_EQ(Read("out/pulled.json")["overlay"], overlay);
}

}  // namespace
}  // namespace moepack::registry
