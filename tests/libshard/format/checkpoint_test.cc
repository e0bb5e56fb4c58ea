#include "libshard/format/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"

namespace moepack {
namespace {

using fixtures::RawTensor;
using fixtures::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;

RawTensor Tensor(const std::string& name) { return {name, "U8", {2}, "xy"}; }

void PutIndex(const fs::path& dir, const std::string& weight_map) {
  ASSERT_TRUE(
      fixtures::WriteFile(dir / "model.safetensors.index.json",
                          R"({"metadata":{"total_size":4},"weight_map":{)" + weight_map + "}}"));
}

void PutTwoShards(const fs::path& dir) {
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "b.safetensors", {Tensor("one")}));
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "a.safetensors", {Tensor("two")}));
}

std::string NamesOf(const Checkpoint& checkpoint) {
  std::string names;
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    names += tensor.name + "@" + checkpoint.files()[tensor.file].name + " ";
  }
  return names;
}

TEST(Checkpoint, OpensAFileADirectoryAndAnIndex) {
  const TempDir dir;
  PutTwoShards(dir.path());
  EXPECT_EQ(NamesOf(*Checkpoint::Open(dir / "a.safetensors")), "two@a.safetensors ");
  EXPECT_EQ(NamesOf(*Checkpoint::Open(dir.path())), "two@a.safetensors one@b.safetensors ");
  PutIndex(dir.path(), R"("one":"b.safetensors","two":"a.safetensors")");
  const Result<Checkpoint> indexed = Checkpoint::Open(dir.path());
  ASSERT_TRUE(indexed) << indexed.error().message;
  EXPECT_EQ(NamesOf(*indexed), "two@a.safetensors one@b.safetensors ");
  EXPECT_TRUE(indexed->warnings().empty());
  EXPECT_NE(indexed->Find("two"), nullptr);
  EXPECT_EQ(indexed->Find("three"), nullptr);
  EXPECT_TRUE(Checkpoint::Open(dir / "model.safetensors.index.json"));
}

TEST(Checkpoint, AnIndexWithoutItsShardsGivesNamesOnly) {
  const TempDir dir;
  PutIndex(dir.path(), R"("one":"b.safetensors","two":"a.safetensors")");
  const Result<Checkpoint> names = Checkpoint::Open(dir / "model.safetensors.index.json");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_TRUE(names->names_only());
  EXPECT_EQ(names->tensors().size(), 2u);
  EXPECT_EQ(names->files()[names->Find("one")->file].name, "b.safetensors");
}

TEST(Checkpoint, WarnsOfFilesThatTheIndexDoesNotNameAndOfAWrongTotal) {
  const TempDir dir;
  PutTwoShards(dir.path());
  PutIndex(dir.path(), R"("two":"a.safetensors")");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->warnings(), ElementsAre(HasSubstr("expected 2, found 4"),
                                                  HasSubstr("b.safetensors: not named by")));
}

TEST(Checkpoint, AMissingShardIsNotFoundAndCounted) {
  const TempDir dir;
  PutTwoShards(dir.path());
  fs::remove(dir / "b.safetensors");
  PutIndex(dir.path(), R"("one":"b.safetensors","two":"a.safetensors")");
  const Error error = Checkpoint::Open(dir.path()).error();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("expected 2 shards"));
  EXPECT_THAT(error.message, HasSubstr("b.safetensors: "));
  EXPECT_THAT(error.message, HasSubstr("1 missing, this one with \"one\""));
}

TEST(Checkpoint, IndexAndHeadersMustAgree) {
  const TempDir dir;
  PutTwoShards(dir.path());
  PutIndex(dir.path(), R"("one":"a.safetensors","two":"b.safetensors")");
  EXPECT_THAT(Checkpoint::Open(dir.path()).error().message, HasSubstr("which holds it"));
  PutIndex(dir.path(), R"("one":"b.safetensors","two":"a.safetensors","3":"a.safetensors")");
  EXPECT_THAT(Checkpoint::Open(dir.path()).error().message,
              HasSubstr("no such tensor in the file"));
}

TEST(Checkpoint, OneTensorInTwoShardsIsCorrupt) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "a.safetensors", {Tensor("same")}));
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "b.safetensors", {Tensor("same")}));
  const Error error = Checkpoint::Open(dir.path()).error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("found also in a.safetensors"));
}

TEST(Checkpoint, RefusesShardsOutsideTheDirectory) {
  for (const char* file :
       {"../x.safetensors", "/etc/passwd", "a/../../x", "./x", "a//b", "a\\\\b"}) {
    const TempDir dir;
    PutIndex(dir.path(), "\"one\":\"" + std::string(file) + "\"");
    const Error error = Checkpoint::Open(dir.path()).error();
    EXPECT_EQ(error.code, Code::kCorrupt) << file;
    EXPECT_THAT(error.message, HasSubstr("expected a file inside the directory")) << file;
  }
}

TEST(Checkpoint, RefusesLinksOutOfTheDirectory) {
  const TempDir dir;
  fs::create_directories(dir / "model");
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "secret.safetensors", {Tensor("one")}));
  fs::create_symlink("../secret.safetensors", dir / "model/a.safetensors");
  const Error error = Checkpoint::Open(dir / "model").error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("found a link to"));
}

TEST(Checkpoint, FollowsTheLinksOfAHuggingFaceCache) {
  const TempDir dir;
  const fs::path repository = dir / "models--a--b";
  fs::create_directories(repository / "blobs");
  fs::create_directories(repository / "snapshots/0123");
  ASSERT_TRUE(fixtures::WriteSafetensors(repository / "blobs/abcd", {Tensor("one")}));
  fs::create_symlink("../../blobs/abcd", repository / "snapshots/0123/model.safetensors");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(repository / "snapshots/0123");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(NamesOf(*checkpoint), "one@model.safetensors ");
}

TEST(Checkpoint, SaysWhatItFoundInstead) {
  const TempDir dir;
  EXPECT_EQ(Checkpoint::Open(dir / "absent").error().code, Code::kNotFound);
  EXPECT_EQ(Checkpoint::Open(dir.path()).error().code, Code::kNotFound);
  ASSERT_TRUE(fixtures::WriteFile(dir / "m.bin", "GGUF"));
  EXPECT_EQ(Checkpoint::Open(dir / "m.bin").error().code, Code::kNotFound);
  ASSERT_TRUE(fixtures::WriteFile(dir / "distribution.json", "{}"));
  EXPECT_THAT(Checkpoint::Open(dir.path()).error().message, HasSubstr("a distribution"));
}

TEST(Checkpoint, RefusesToChooseAmongSeveralIndexes) {
  const TempDir dir;
  PutTwoShards(dir.path());
  for (const char* name : {"x.safetensors.index.json", "y.safetensors.index.json"}) {
    ASSERT_TRUE(fixtures::WriteFile(dir / name, R"({"weight_map":{"one":"b.safetensors"}})"));
  }
  EXPECT_THAT(Checkpoint::Open(dir.path()).error().message, HasSubstr("found 2"));
  EXPECT_TRUE(Checkpoint::Open(dir / "x.safetensors.index.json"));
}

TEST(Checkpoint, NoticesAReplacedShard) {
  const TempDir dir;
  PutTwoShards(dir.path());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(checkpoint->CheckUnchanged());
  fs::remove(dir / "a.safetensors");
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "a.safetensors", {Tensor("other")}));
  EXPECT_EQ(checkpoint->CheckUnchanged().error().code, Code::kCorrupt);
}

// MiniGguf of two layers, with its last tensor in a separate part.
void PutTwoParts(const fs::path& dir) {
  fixtures::GgufFile first = fixtures::MiniGguf("qwen3moe", 2, 4), second;
  first.pairs.push_back(fixtures::GgufPairU16("split.no", 0));
  first.pairs.push_back(fixtures::GgufPairU16("split.count", 2));
  first.pairs.push_back(
      fixtures::GgufPairI32("split.tensors.count", static_cast<int32_t>(first.tensors.size())));
  second.pairs = {fixtures::GgufPairU16("split.no", 1)};
  second.tensors = {first.tensors.back()};
  first.tensors.pop_back();
  ASSERT_TRUE(fixtures::WriteFile(dir / "m-00001-of-00002.gguf", fixtures::GgufBytes(first)));
  ASSERT_TRUE(fixtures::WriteFile(dir / "m-00002-of-00002.gguf", fixtures::GgufBytes(second)));
}

TEST(CheckpointGguf, OpensAFileAndItsDirectory) {
  const TempDir dir;
  const std::string bytes = fixtures::GgufBytes(fixtures::MiniGguf("qwen3moe", 1, 4));
  ASSERT_TRUE(fixtures::WriteFile(dir / "any name.gguf", bytes));
  for (const fs::path& source : {dir.path(), dir / "any name.gguf"}) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(source);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_TRUE(checkpoint->is_gguf());
    EXPECT_EQ(checkpoint->tree()->name(), dir.path());
    EXPECT_EQ(checkpoint->metadata().Architecture(), "qwen3moe");
    ASSERT_EQ(checkpoint->files().size(), 1u);
    EXPECT_EQ(checkpoint->files()[0].size, bytes.size());
    EXPECT_EQ(checkpoint->files()[0].header_sha256,
              Sha256Hex(bytes.substr(0, checkpoint->files()[0].data_start)));
    EXPECT_NE(checkpoint->Find("blk.0.ffn_up_exps.weight"), nullptr);
  }
}

TEST(CheckpointGguf, OpensASetByAnyPart) {
  const TempDir dir;
  PutTwoParts(dir.path());
  for (const fs::path& source :
       {dir.path(), dir / "m-00001-of-00002.gguf", dir / "m-00002-of-00002.gguf"}) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(source);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    ASSERT_EQ(checkpoint->files().size(), 2u);
    EXPECT_EQ(checkpoint->files()[1].name, "m-00002-of-00002.gguf");
    EXPECT_EQ(checkpoint->Find("output_norm.weight")->file, 1u);
    EXPECT_EQ(checkpoint->metadata().Architecture(), "qwen3moe");
  }
}

TEST(CheckpointGguf, SafetensorsWinWithAWarning) {
  const TempDir dir;
  PutTwoShards(dir.path());
  ASSERT_TRUE(fixtures::WriteFile(dir / "m.gguf", "GGUF"));
  const auto check = [&] {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_FALSE(checkpoint->is_gguf());
    EXPECT_TRUE(checkpoint->metadata().entries().empty());
    EXPECT_THAT(checkpoint->warnings(), ElementsAre(HasSubstr("m.gguf: left out")));
  };
  check();
  PutIndex(dir.path(), R"("one":"b.safetensors","two":"a.safetensors")");
  check();
}

TEST(CheckpointGguf, AFileThatIsNamedMayBeALink) {
  const TempDir dir;
  fs::create_directories(dir / "blobs");
  fs::create_directories(dir / "here");
  ASSERT_TRUE(fixtures::WriteFile(dir / "blobs/abc",
                                  fixtures::GgufBytes(fixtures::MiniGguf("qwen3moe", 1, 4))));
  fs::create_symlink("../blobs/abc", dir / "here/m.gguf");
  EXPECT_TRUE(Checkpoint::Open(dir / "here/m.gguf"));
  const Result<Checkpoint> found = Checkpoint::Open(dir / "here");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kCorrupt);
  EXPECT_THAT(found.error().message, HasSubstr("expected a file inside"));
}

TEST(CheckpointGguf, NoticesAReplacedPart) {
  const TempDir dir;
  PutTwoParts(dir.path());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(checkpoint->CheckUnchanged());
  fs::remove(dir / "m-00002-of-00002.gguf");
  ASSERT_TRUE(fixtures::WriteFile(dir / "m-00002-of-00002.gguf", "other"));
  EXPECT_EQ(checkpoint->CheckUnchanged().error().code, Code::kCorrupt);
}

TEST(Checkpoint, AStaleIndexBesideACompleteFileIsNamed) {
  const TempDir dir;
  PutIndex(dir.path(), R"("one":"model-00001-of-00002.safetensors",)"
                       R"("two":"model-00002-of-00002.safetensors")");
  ASSERT_TRUE(
      fixtures::WriteSafetensors(dir / "model.safetensors", {Tensor("one"), Tensor("two")}));
  const Error error = Checkpoint::Open(dir.path()).error();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message,
              HasSubstr("model.safetensors.index.json: weight_map: expected model.safetensors, the "
                        "file of tensors beside it, found 2 other files, "
                        "model-00001-of-00002.safetensors first, and none of them there"));
  EXPECT_EQ(error.hint,
            "the index is stale: remove it, or name " + (dir / "model.safetensors").string());
  EXPECT_TRUE(Checkpoint::Open(dir / "model.safetensors"));
}

TEST(Checkpoint, AConfigWithoutWeightsIsNamedAsSuch) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "config.json", "{}"));
  for (const fs::path& path : {dir.path(), dir / "config.json"}) {
    const Error error = Checkpoint::Open(path).error();
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message, HasSubstr("found a config without weights"));
    EXPECT_THAT(error.hint, HasSubstr("download the weights"));
  }
}

TEST(Checkpoint, AFolderOfTheHuggingFaceCacheNamesItsSnapshot) {
  const TempDir dir;
  const fs::path root = dir / "models--owner--name";
  for (const char* revision : {"0123", "4567"})
    fs::create_directories(root / "snapshots" / revision);
  fs::create_directories(root / "refs");
  const std::string found = root.string() +
                            ": expected model.safetensors.index.json, *.safetensors or *.gguf, "
                            "found a folder of the Hugging Face cache";
  Error error = Checkpoint::Open(root).error();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message, found);
  const Error hub = Checkpoint::Open(dir.path()).error();
  EXPECT_THAT(hub.message, HasSubstr("found the cache of Hugging Face"));
  EXPECT_THAT(hub.hint, HasSubstr("models--OWNER--NAME/snapshots/REVISION"));
  EXPECT_EQ(error.hint, "name the snapshot: " + (root / "snapshots/0123").string() +
                            ", or the other one there");
  ASSERT_TRUE(fixtures::WriteFile(root / "refs/main", "4567\n"));
  error = Checkpoint::Open(root).error();
  EXPECT_THAT(error.hint, HasSubstr((root / "snapshots/4567").string() + ", or the other"));
  fs::remove(root / "snapshots/0123");
  EXPECT_EQ(Checkpoint::Open(root).error().hint,
            "name the snapshot: " + (root / "snapshots/4567").string());
}

}  // namespace
}  // namespace moepack
