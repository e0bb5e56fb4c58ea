#include "manifest/write/assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> AssetNames(const fs::path& directory) {
  const auto assets = ListAssets(LocalTree(directory));
  EXPECT_TRUE(assets) << assets.error().message;
  std::vector<std::string> names;
  if (!assets) return names;
  for (const Asset& asset : *assets) names.push_back(asset.name);
  return names;
}

void Touch(const fs::path& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) fixtures::WriteFile(directory / name, name);
}

TEST(ListAssets, TakesTheFilesBesideTheWeightsSortedByName) {
  const std::vector<std::string> names = {"LICENCE",
                                          "LICENSE",
                                          "LICENSE.txt",
                                          "NOTICE",
                                          "added_tokens.json",
                                          "chat_template.jinja",
                                          "chat_template.json",
                                          "config.json",
                                          "custom.jinja",
                                          "generation_config.json",
                                          "hf_quant_config.json",
                                          "hy.tiktoken",
                                          "merges.txt",
                                          "modeling_custom.py",
                                          "preprocessor_config.json",
                                          "processor_config.json",
                                          "special_tokens_map.json",
                                          "tekken.json",
                                          "tiktoken.model",
                                          "tokenizer.json",
                                          "tokenizer.model",
                                          "tokenizer_config.json",
                                          "video_preprocessor_config.json",
                                          "vocab.json"};
  const fixtures::TempDir dir;
  Touch(dir.path(), names);
  EXPECT_EQ(AssetNames(dir.path()), names);
  const auto assets = ListAssets(LocalTree(dir.path()));
  ASSERT_TRUE(assets);
  for (const Asset& asset : *assets) EXPECT_EQ(asset.size, asset.name.size()) << asset.name;
}

TEST(ListAssets, LeavesOutWeightsIndexesAndEverythingElse) {
  const fixtures::TempDir dir;
  Touch(dir.path(), {"model.safetensors", "tokenizer.safetensors", "model.safetensors.index.json",
                     "tokenizer.index.json", "README.md", "training_args.bin", "pytorch_model.bin",
                     "model.gguf", ".gitattributes", "my_config.json"});
  EXPECT_THAT(AssetNames(dir.path()), IsEmpty());
}

TEST(ListAssets, DoesNotLookIntoSubdirectories) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "tokenizer");
  Touch(dir.path(), {"config.json", "tokenizer/tokenizer.json"});
  EXPECT_THAT(AssetNames(dir.path()), ElementsAre("config.json"));
}

TEST(ListAssets, LeavesOutFilesThatAreTooLargeForAssets) {
  const fixtures::TempDir dir;
  Touch(dir.path(), {"tokenizer.json", "vocab.bin"});
  fs::resize_file(dir / "tokenizer.json", 256u << 20);  // sparse
  fs::resize_file(dir / "vocab.bin", (256u << 20) + 1);
  EXPECT_THAT(AssetNames(dir.path()), ElementsAre("tokenizer.json"));
}

TEST(ListAssets, RefusesALinkOutOfTheDirectory) {
  const fixtures::TempDir dir;
  fs::create_directory(dir / "model");
  Touch(dir.path(), {"secret", "model/config.json"});
  fs::create_symlink(dir / "secret", dir / "model/tokenizer.json");
  const auto assets = ListAssets(LocalTree(dir / "model"));
  ASSERT_FALSE(assets);
  EXPECT_EQ(assets.error().code, Code::kCorrupt);
  EXPECT_THAT(assets.error().message, HasSubstr("tokenizer.json"));
  EXPECT_THAT(assets.error().message, HasSubstr("found a link to "));
}

TEST(ListAssets, FollowsLinksInsideTheDirectoryAndIntoTheBlobsOfACache) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "snapshots/main");
  fs::create_directory(dir / "blobs");
  Touch(dir.path(), {"blobs/digest", "snapshots/main/LICENSE"});
  fs::create_symlink("../../blobs/digest", dir / "snapshots/main/config.json");
  fs::create_symlink("LICENSE", dir / "snapshots/main/LICENCE");
  EXPECT_THAT(AssetNames(dir / "snapshots/main"), ElementsAre("LICENCE", "LICENSE", "config.json"));
}

TEST(ListAssets, AMissingDirectoryIsAnError) {
  const fixtures::TempDir dir;
  const auto assets = ListAssets(LocalTree(dir / "nowhere"));
  ASSERT_FALSE(assets);
  EXPECT_EQ(assets.error().code, Code::kIo);
  EXPECT_THAT(assets.error().message, HasSubstr("nowhere"));
}

TEST(CopyAssets, CopiesByteForByteAndReturnsTheDigest) {
  const fixtures::TempDir dir;
  const std::string bytes = sample::Noise(100'000, 3) + std::string("\0\r\n", 3);
  fs::create_directory(dir / "from");
  fixtures::WriteFile(dir / "from/LICENSE", bytes);
  auto staging = StagingDirectory::Start(dir / "out", "identity");
  ASSERT_TRUE(staging) << staging.error().message;
  const auto records =
      CopyAssets({LocalTree(dir / "from"), ""}, *staging, {{"LICENSE", bytes.size()}});
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->front().file, "assets/LICENSE");
  EXPECT_EQ(records->front().sha256, Sha256Hex(bytes));
  EXPECT_EQ(fixtures::ReadFile(staging->path() / "assets/LICENSE"), bytes);
}

TEST(CopyAssets, FailsIfAFileIsGoneOrChangedItsSize) {
  const fixtures::TempDir dir;
  fs::create_directory(dir / "from");
  fixtures::WriteFile(dir / "from/LICENSE", "text");
  auto staging = StagingDirectory::Start(dir / "out", "identity");
  ASSERT_TRUE(staging) << staging.error().message;
  const auto gone = CopyAssets({LocalTree(dir / "from"), ""}, *staging, {{"NOTICE", 4}});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  const auto changed = CopyAssets({LocalTree(dir / "from"), ""}, *staging, {{"LICENSE", 5}});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::kCorrupt);
}

TEST(CopyAssets, FailsIfTheFolderCannotBeMade) {
  const fixtures::TempDir dir;
  fs::create_directory(dir / "from");
  fixtures::WriteFile(dir / "from/LICENSE", "text");
  auto staging = StagingDirectory::Start(dir / "out", "identity");
  ASSERT_TRUE(staging) << staging.error().message;
  fixtures::WriteFile(staging->path() / "assets", "a file, not a folder");
  const auto copied = CopyAssets({LocalTree(dir / "from"), ""}, *staging, {{"LICENSE", 4}});
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Code::kNotFound);
  EXPECT_THAT(copied.error().message, HasSubstr("assets: open the directory: Not a directory"));
}

}  // namespace
}  // namespace moepack::manifest
