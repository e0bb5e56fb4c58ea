#include "manifest/registry/server/tag_list.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::ElementsAre;

TEST(TagList, ReadsTagsInTheirOrder) {
  const auto tags = ParseTagList("it", R"({"name": "a/b", "tags": ["v2", "v1"]})");
  ASSERT_TRUE(tags) << tags.error().message;
  EXPECT_THAT(*tags, ElementsAre("v2", "v1"));
  EXPECT_TRUE(ParseTagList("it", R"({"name": "a/b", "tags": null})")->empty());
}

TEST(TagList, NamesWhatIsNotATag) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"tags": ["v1", "../x"]})",
       "it: tags: 1: expected up to 128 letters, digits, '_', '.' "
       "and '-', found \"../x\""},
      {R"({"tags": [7]})",
       "it: tags: 0: expected up to 128 letters, digits, '_', '.' and '-', "
       "found 7"}};
  for (const auto& [text, message] : cases) {
    const auto tags = ParseTagList("it", text);
    ASSERT_FALSE(tags) << text;
    EXPECT_EQ(tags.error().code, Code::kCorrupt);
    EXPECT_EQ(tags.error().message, message);
  }
}

}  // namespace
}  // namespace moepack::registry
