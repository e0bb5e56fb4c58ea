#include "manifest/registry/store_plan.h"

#include <gmock/gmock.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "manifest/registry/store/oci_layout.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class StorePlanTest : public testing::Test {
 protected:
  Reference To() const { return {Reference::Kind::kLayout, (dir_ / "layout").string(), "v1", ""}; }
  // A blob, and a manifest with two tags.
  static StorePlan Plan() {
    const auto blob = [](const std::string& text) {
      return BlobRecord{kManifestType, DigestOf(Sha256Hex(text)), text.size()};
    };
    StorePlan plan;
    plan.blobs.push_back({"file", blob("bytes"), "bytes"});
    plan.manifests.push_back({"manifest v1", blob("{}"), "{}"});
    plan.AddTag({"v1", ""}, blob("{}"), "{}");
    plan.AddTag({"stable", ""}, blob("{}"), "{}");
    return plan;
  }
  static Status Put(WritableStore& store, StorePlan& plan, StoreReport& report) {
    const auto add = [&](const StorePlan::Blob& item, const PieceDone&) {
      return store.AddText(item.blob, item.text);
    };
    return PutPlan(store, add, {}, plan, report);
  }
  fixtures::TempDir dir_;
};

TEST_F(StorePlanTest, CountsBlobsManifestsAndTags) {
  StorePlan plan = Plan();
  StoreReport report = StartReport(plan);
  EXPECT_FALSE(*OpenTarget(To(), {}));
  {
    const auto store = OpenWritable(To(), {});
    ASSERT_TRUE(store);
    const Status put = Put(**store, plan, report);
    ASSERT_TRUE(put) << put.error().message;
  }
  EXPECT_EQ(report.added_bytes(), 7u);
  EXPECT_EQ(report.bytes_by("copy"), 7u);
  EXPECT_EQ(report.there_bytes(), 0u);
  const auto there = OpenTarget(To(), {});
  ASSERT_TRUE(there && *there);
  StorePlan again = Plan();
  StoreReport second = StartReport(again);
  ASSERT_TRUE(LookAtStore(**there, {}, again, second));
  EXPECT_EQ(second.there_bytes(), 7u);
  EXPECT_EQ(second.tags[1].before, second.digest());
}

TEST_F(StorePlanTest, ARunThatFailsTakesBackWhatItAdded) {
  const std::string there = "there", own = "own";
  const auto blob = [](const std::string& text) {
    return BlobRecord{kManifestType, DigestOf(Sha256Hex(text)), text.size()};
  };
  const auto store = OpenWritable(To(), {});
  ASSERT_TRUE(store && (*store)->AddText(blob(there), there));
  const auto put = [&](Code code, const char* how) {
    const auto add = [&](const StorePlan::Blob& item, const PieceDone&) -> Result<Added> {
      if (item.name == "full") return Error{code, "no room"};
      auto added = (*store)->AddText(item.blob, item.text);
      if (!added->was_there()) added->how = how;
      return added;
    };
    StorePlan plan = Plan();
    plan.blobs = {{"there", blob(there), there}, {"own", blob(own), own}, {"full", blob("x"), "x"}};
    StoreReport report = StartReport(plan);
    PutOptions options;
    options.pack.jobs = 1;
    EXPECT_FALSE(PutPlan(**store, add, options, plan, report));
    EXPECT_TRUE((*store)->CheckBlob(blob(there)));
    return (*store)->CheckBlob(blob(own)).has_value();
  };
  EXPECT_FALSE(put(Code::kIo, "copy"));
  // A transfer is not repeated, and a stopped run goes on.
  EXPECT_TRUE(put(Code::kIo, kFetched));
  (*store)->TakeBack(blob(own));
  EXPECT_TRUE(put(Code::kInterrupted, "copy"));
}

// Two publishers of one tag: the second must not move it without --force.
TEST_F(StorePlanTest, DoesNotMoveATagThatSomebodyElseHasSetMeanwhile) {
  const auto store = OpenWritable(To(), {});
  ASSERT_TRUE(store) << store.error().message;
  const std::string other = "{}\n";
  const BlobRecord theirs{kManifestType, DigestOf(Sha256Hex(other)), other.size()};
  const auto add = [&](const StorePlan::Blob& item, const PieceDone&) {
    EXPECT_TRUE((*store)->AddText(theirs, other));
    EXPECT_TRUE((*store)->SetTags({{"v1", theirs, other}}));
    return (*store)->AddText(item.blob, item.text);
  };
  StorePlan plan = Plan();
  StoreReport report = StartReport(plan);
  const Status put = PutPlan(**store, add, {}, plan, report);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kInvalidArgument);
  EXPECT_THAT(put.error().message, HasSubstr("tag \"v1\": expected it as it was a moment ago"));
  EXPECT_EQ((*store)->FindTag("v1")->digest, theirs.digest);
  StorePlan forced = Plan();
  ASSERT_TRUE(PutPlan(**store, add, {.force = true}, forced, report));
  EXPECT_EQ((*store)->FindTag("v1")->digest, forced.tags[0].tag.digest);
}

TEST_F(StorePlanTest, RefusesReadOnlyTargetsEvenInADryRun) {
  for (const auto kind : {Reference::Kind::kFiles, Reference::Kind::kWebLayout}) {
    const auto target = OpenTarget({kind, "https://host.example/x", "", ""}, {});
    ASSERT_FALSE(target);
    EXPECT_EQ(target.error().code, Code::kInvalidArgument);
  }
}

TEST(ViewTag, IsRefusedWhenItIsTooLong) {
  EXPECT_EQ(*ViewTag("v1", 7), "v1-g007");
  const auto tag = ViewTag(std::string(125, 'v'), 0);
  ASSERT_FALSE(tag);
  EXPECT_THAT(tag.error().message, HasSubstr("expected at most 128 characters, found 130"));
}

}  // namespace
}  // namespace moepack::registry
