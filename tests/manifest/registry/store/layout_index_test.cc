#include "manifest/registry/store/layout_index.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kFirst = "sha256:" + std::string(64, '1');
const std::string kSecond = "sha256:" + std::string(64, '2');

std::string Entry(const std::string& digest, const std::string& tag) {
  return R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":")" + digest +
         R"(","size":3,"annotations":{"org.opencontainers.image.ref.name":")" + tag +
         R"(","other":"kept"},"platform":{"os":"linux"}})";
}
std::string Index(const std::string& entries) {
  return R"({"schemaVersion":2,"manifests":[)" + entries + R"(],"more":1})";
}

LayoutIndex Parsed(const std::string& text) {
  auto index = LayoutIndex::Parse("it", text);
  EXPECT_TRUE(index) << index.error().message;
  return index ? *std::move(index) : LayoutIndex();
}

TEST(LayoutIndex, KeepsWhatOtherToolsWrote) {
  const std::string text = Index(Entry(kFirst, "a") + "," + Entry(kFirst, "b"));
  LayoutIndex index = Parsed(text);
  EXPECT_EQ(index.Write(), text);
  EXPECT_EQ(index.Find("it", "b")->digest, kFirst);
  index.SetTag("c", {kManifestType, kSecond, 9});
  EXPECT_THAT(index.Write(), HasSubstr(Entry(kFirst, "a") + "," + Entry(kFirst, "b") + ","));
  EXPECT_EQ(index.Find("it", "c")->size, 9u);
}

TEST(LayoutIndex, ATagNamesOneManifest) {
  LayoutIndex index = Parsed(Index(Entry(kFirst, "a") + "," + Entry(kFirst, "b")));
  index.SetTag("a", {kManifestType, kFirst, 3});  // unchanged
  EXPECT_THAT(index.Write(), HasSubstr(Entry(kFirst, "a")));
  index.SetTag("a", {kManifestType, kSecond, 9});
  EXPECT_EQ(index.Find("it", "a")->digest, kSecond);
  EXPECT_EQ(index.Find("it", "b")->digest, kFirst);
  EXPECT_EQ(index.entries().size(), 2u);
  EXPECT_EQ(Parsed(index.Write()).Find("it", "a")->digest, kSecond);
}

TEST(LayoutIndex, RemovesATagFromEveryEntry) {
  LayoutIndex index =
      Parsed(Index(Entry(kFirst, "a") + "," + Entry(kSecond, "b") + "," + Entry(kSecond, "a")));
  index.RemoveTag("a");
  EXPECT_EQ(index.Write(), Index(Entry(kSecond, "b")));
  EXPECT_EQ(index.entries().size(), 1u);
  index.RemoveTag("x");
  EXPECT_EQ(index.entries().size(), 1u);
}

TEST(LayoutIndex, ListsTheTags) {
  const auto missing = Parsed(Index(Entry(kFirst, "a"))).Find("dir", "x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().message, "dir: tag: expected \"x\", found a");
  EXPECT_EQ(missing.error().hint, "`moepack ls layout:dir` lists what the layout holds");
  EXPECT_THAT(LayoutIndex().Find("dir", "x").error().message, HasSubstr("found no tag"));
}

TEST(LayoutIndex, RefusesATagOnTwoManifests) {
  const auto found = Parsed(Index(Entry(kFirst, "a") + "," + Entry(kSecond, "a"))).Find("it", "a");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kCorrupt);
  EXPECT_THAT(found.error().message, HasSubstr("expected one manifest, found " + kFirst));
}

TEST(LayoutIndex, RefusesInvalidIndexes) {
  const std::pair<std::string, Code> cases[] = {
      {"[]", Code::kCorrupt},
      {R"({"schemaVersion":1,"manifests":[]})", Code::kCorrupt},
      {R"({"schemaVersion":2})", Code::kCorrupt},
      {R"({"schemaVersion":2,"mediaType":"x","manifests":[]})", Code::kUnsupported},
      {R"({"schemaVersion":2,"manifests":[{"digest":"x"}]})", Code::kCorrupt},
      {R"({"schemaVersion":2,"manifests":)" + std::string(100, '[') + "1" + std::string(100, ']') +
           "}",
       Code::kCorrupt},
  };
  for (const auto& [text, code] : cases) {
    const auto index = LayoutIndex::Parse("it", text);
    ASSERT_FALSE(index) << text;
    EXPECT_EQ(index.error().code, code) << text;
    EXPECT_THAT(index.error().message, testing::StartsWith("it")) << text;
  }
}

}  // namespace
}  // namespace moepack::registry
