#include "manifest/registry/published_parts.h"

#include <gmock/gmock.h>

#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

TEST(PublishedParts, AreReadFromTheDirectory) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(tiny::Write(dir / "dist"));
  const auto parts = ReadPublished((dir / "dist").string());
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ(parts->text, fixtures::ReadFile(dir / "dist/distribution.json"));
  EXPECT_EQ(parts->readme, fixtures::ReadFile(dir / "dist/README.md"));
  const auto& bundle = parts->manifest.bundles[0];
  EXPECT_TRUE(CheckPublishedSize(*parts, bundle.file, bundle.size));
  const Status other = CheckPublishedSize(*parts, bundle.file, bundle.size + 1);
  EXPECT_EQ(other.error().code, Code::kMismatch);
  EXPECT_THAT(other.error().message, HasSubstr(": file size: expected "));
  const Status absent = CheckPublishedSize(*parts, "groups/009/x", 7);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("expected a file of 7 bytes, found none"));
  const auto none = ReadPublished((dir / "absent").string());
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("absent"));
}

TEST(PublishedParts, AbsentPartsNeedPermission) {
  EXPECT_TRUE(CheckWhole("d", {}, false));
  EXPECT_TRUE(CheckWhole("d", {"trunk"}, true));
  const Status refused = CheckWhole("d", {"trunk", "group:1"}, false);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(
      refused.error().message,
      HasSubstr("d: expected a complete distribution, found one that lacks trunk, group:1"));
}

}  // namespace
}  // namespace moepack::registry
