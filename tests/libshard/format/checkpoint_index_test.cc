#include "libshard/format/checkpoint_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(CheckpointIndex, ListsEachShardOnceAndInOrder) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "i.json", R"({"metadata": {"total_size": 7},
      "weight_map": {"c": "b.safetensors", "a": "b.safetensors", "b": "a.safetensors"}})"));
  const auto index = ReadCheckpointIndex(LocalTree(dir.path()), "i.json");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->path, dir / "i.json");
  EXPECT_THAT(index->shards, ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT(index->file_of, ElementsAre(Pair("c", 1), Pair("a", 1), Pair("b", 0)));
  EXPECT_EQ(index->total_size, 7u);
}

TEST(CheckpointIndex, AcceptsATotalSizeThatIsNotANumber) {
  const fixtures::TempDir dir;
  for (const char* metadata : {"null", "[]", "{}", R"({"total_size": 1.5})",
                               R"({"total_size": "7"})", R"({"total_size": -1})"}) {
    ASSERT_TRUE(fixtures::WriteFile(
        dir / "i.json",
        std::string(R"({"weight_map": {"a": "a.safetensors"}, "metadata": )") + metadata + "}"));
    const auto index = ReadCheckpointIndex(LocalTree(dir.path()), "i.json");
    ASSERT_TRUE(index) << index.error().message;
    EXPECT_EQ(index->total_size, std::nullopt) << metadata;
  }
}

TEST(CheckpointIndex, PrefersTheUsualName) {
  const fixtures::TempDir dir;
  EXPECT_EQ(*FindCheckpointIndex(LocalTree(dir.path())), std::nullopt);
  ASSERT_TRUE(fixtures::WriteFile(dir / "b.safetensors.index.json", "{}"));
  EXPECT_EQ(*FindCheckpointIndex(LocalTree(dir.path())), "b.safetensors.index.json");
  ASSERT_TRUE(fixtures::WriteFile(dir / "model.safetensors.index.json", "{}"));
  EXPECT_EQ(*FindCheckpointIndex(LocalTree(dir.path())), "model.safetensors.index.json");
}

}  // namespace
}  // namespace moepack
