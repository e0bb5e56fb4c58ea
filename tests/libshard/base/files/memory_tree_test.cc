#include "libshard/base/files/memory_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MemorySource, ReadsItsBytesAndNamesItselfPastTheEnd) {
  const MemorySource source("memory", "0123456789");
  std::string text(3, ' ');
  ASSERT_TRUE(source.ReadAt(7, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "789");
  const Status past = source.ReadAt(8, std::as_writable_bytes(std::span(text)));
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, Code::kCorrupt);
  EXPECT_THAT(past.error().message,
              HasSubstr("memory: read at offset 8: expected 3 bytes, found 2"));
  EXPECT_FALSE(source.ReadAt(100, std::as_writable_bytes(std::span(text))));
  EXPECT_FALSE(source.descriptor());
  EXPECT_NE(source.identity(), MemorySource("memory", "other bytes").identity());
}

TEST(MemoryTree, HoldsOnlyWhatWasAdded) {
  MemoryTree tree("model");
  tree.Add("b.json", "{}");
  tree.Add("a.json", "[]");
  tree.Add("folder/c.json", "1");
  EXPECT_THAT(*tree.List("", ".json"), ElementsAre("a.json", "b.json"));
  EXPECT_THAT(*tree.List("folder", ""), ElementsAre("c.json"));
  EXPECT_EQ(*tree.ReadText("folder/c.json", 10), "1");
  EXPECT_TRUE(*tree.Has("a.json"));
  EXPECT_FALSE(*tree.Has("d.json"));
  EXPECT_EQ(tree.Open("d.json").error().code, Code::kNotFound);
  EXPECT_EQ(tree.Open("../a.json").error().code, Code::kCorrupt);
  EXPECT_FALSE(tree.Has("/a.json"));
  EXPECT_EQ(tree.LocalPath(""), std::nullopt);
}

// Messages then name the real place of the bytes.
TEST(MemoryTree, NamesAFileAfterItsSource) {
  MemoryTree tree("restored");
  tree.Add("config.json", std::make_shared<const MemorySource>("dist/assets/config.json", "{}"));
  EXPECT_EQ(tree.NameOf("config.json"), "dist/assets/config.json");
  EXPECT_EQ(tree.NameOf("other"), "restored/other");
}

}  // namespace
}  // namespace moepack
