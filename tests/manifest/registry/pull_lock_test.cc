#include "manifest/registry/pull_lock.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

PullLock Sample() {
  return {"oci://host.example/team/model:v1", "sha256:" + std::string(64, 'a'), {0, 7}, "v2"};
}

TEST(PullLock, ReadsBackWhatItWrites) {
  const auto read = ParseLock("pulled.json", WriteLock(Sample()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, Sample());
  PullLock without = Sample();
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
    std::string text = WriteLock(Sample());
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

TEST(PullLock, AMissingDirectoryHasNoLock) {
  const auto read = ReadLock("/nonexistent/directory");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->has_value());
}

}  // namespace
}  // namespace moepack::registry
