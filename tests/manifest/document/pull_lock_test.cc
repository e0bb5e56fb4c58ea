#include "manifest/document/pull_lock.h"

#include <gmock/gmock.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "manifest/document/file_names.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

PullLock SampleLock() {
  return {"oci://host.example/team/model:v1", "sha256:" + std::string(64, 'a'), {0, 7}, "v2"};
}

TEST(PullLock, ReadsBackWhatItWrites) {
  const auto read = ParseLock("pulled.json", WriteLock(SampleLock()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SampleLock());
  PullLock without = SampleLock();
  without.overlay.reset();
  const auto second = ParseLock("pulled.json", WriteLock(without));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(*second, without);
}

TEST(PullLock, RefusesInvalidLocks) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"{", "", "pulled.json"},
      {"\"version\": 1", "\"version\": 2", "version: expected 1"},
      {"\"digest\": \"sha256:a", "\"digest\": \"sha512:a", "digest: expected sha256:"},
      {"[0, 7]", "[0, -7]", "groups: expected a list of group numbers"},
      {"[0, 7]", "[0, 4294967296]", "groups: expected a list of group numbers"},
      {"[0, 7]", "7", "groups: expected"},
      {"\"v2\"", "true", "overlay: expected"},
      {"\"reference\"", "\"other\"", "reference: expected"},
  };
  for (const auto& one : cases) {
    std::string text = WriteLock(SampleLock());
    const size_t at = text.find(one.from);
    ASSERT_NE(at, std::string::npos) << one.from << " in " << text;
    text.replace(at, std::string(one.from).size(), one.to);
    const auto read = ParseLock("pulled.json", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kCorrupt) << text;
    EXPECT_THAT(read.error().message, HasSubstr(one.message));
    EXPECT_THAT(read.error().hint, HasSubstr("remove the file"));
  }
}

Plan TwoOverlays() {
  Plan plan;
  plan.overlays = {{"v1", "", {}, {}}, {"v2", "", {}, {}}};
  return plan;
}

TEST(OverlayByDefault, IsTheOneThatWasPulled) {
  const fixtures::TempDir dir;
  const LocalTree tree(dir.path());
  const auto choice = [&](const Plan& plan) {
    const auto chosen = OverlayByDefault(tree, plan);
    EXPECT_TRUE(chosen) << chosen.error().message;
    return chosen ? *chosen : DefaultOverlay{.version = "?"};
  };
  EXPECT_EQ(choice(TwoOverlays()).version, "") << "it was not pulled";
  PullLock lock = SampleLock();
  fixtures::WriteFile(dir / kPullLockFile, WriteLock(lock));
  EXPECT_EQ(choice(TwoOverlays()).version, "");
  EXPECT_EQ(choice(TwoOverlays()).note, "") << "v2 is the current one";
  lock.overlay = "v1";
  fixtures::WriteFile(dir / kPullLockFile, WriteLock(lock));
  EXPECT_EQ(choice(TwoOverlays()).version, "v1");
  EXPECT_THAT(choice(TwoOverlays()).note,
              HasSubstr("pulled.json: overlay \"v1\" was pulled, so it is taken"));
  EXPECT_EQ(choice(Plan()).version, "") << "it has none";
  lock.overlay.reset();
  fixtures::WriteFile(dir / kPullLockFile, WriteLock(lock));
  EXPECT_TRUE(choice(TwoOverlays()).none);
  EXPECT_THAT(choice(TwoOverlays()).note, HasSubstr("pulled without an overlay"));
  fixtures::WriteFile(dir / kPullLockFile, "{");
  const auto damaged = OverlayByDefault(tree, TwoOverlays());
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
}

TEST(PullLock, AMissingDirectoryHasNoLock) {
  const auto read = ReadLock("/nonexistent/directory");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->has_value());
}

}  // namespace
}  // namespace moepack::manifest
