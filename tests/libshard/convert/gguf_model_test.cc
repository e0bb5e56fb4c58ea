#include "libshard/convert/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/converter.h"
#include "libshard/format/gguf.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TensorEntry Entry(const std::string& name, const char* type, std::vector<uint64_t> shape) {
  TensorEntry entry;
  entry.name = name;
  entry.format = quant::FindFormat(type);
  entry.shape = std::move(shape);
  entry.bytes = *entry.format->BytesFor(entry.Elements());
  return entry;
}

GgufMetadata Metadata() {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  metadata.Set("qwen3moe.block_count", GgufValue::U32(1));
  metadata.Set("qwen3moe.expert_count", GgufValue::U32(3));
  metadata.Set("qwen3moe.expert_used_count", GgufValue::U32(2));
  metadata.Set("split.no", GgufValue::U16(0));
  metadata.Set("split.count", GgufValue::U16(1));
  metadata.Set("own.key", GgufValue::String("kept"));
  return metadata;
}

// Writes a GGUF file of zeros.
void WriteGguf(const fs::path& path, const std::vector<TensorEntry>& tensors) {
  OutputFile file;
  for (const TensorEntry& entry : tensors) {
    file.tensors.emplace_back();
    file.tensors.back().entry = entry;
  }
  LayOutGguf(file, Metadata());
  std::string bytes = file.prefix;
  bytes.resize(file.size);
  ASSERT_TRUE(fixtures::WriteFile(path, bytes));
}

TEST(GgufModel, KeepsTheTensorsAndKeysOfAGgufSource) {
  const fixtures::TempDir dir;
  WriteGguf(dir / "m.gguf", {Entry("token_embd.weight", "q8_0", {4, 64}),
                             Entry("blk.0.ffn_gate_inp.weight", "f32", {3, 64}),
                             Entry("blk.0.ffn_up_exps.weight", "q4_0", {3, 2, 64})});
  const auto source = MoeModel::Open(dir / "m.gguf");
  ASSERT_TRUE(source) << source.error().message;
  const auto model = ToGguf(*source, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture(), "qwen3moe");
  EXPECT_EQ(model->metadata.String("own.key"), "kept");
  for (const char* key : {"split.no", "split.count", "general.alignment"}) {
    EXPECT_EQ(model->metadata.Find(key), nullptr) << key;
  }
  ASSERT_EQ(model->tensors.size(), 3u);
  const GgufTensor& embedding = model->tensors[0];
  EXPECT_EQ(embedding.stored->name, "q8_0");
  EXPECT_EQ(embedding.type, embedding.stored);
  EXPECT_EQ(embedding.bytes(), 4u * 68);
  EXPECT_EQ(embedding.expert_count, 0u);
  EXPECT_FALSE(model->tensors[1].fixed) << "a tensor of a GGUF keeps its type";
  EXPECT_EQ(model->tensors[1].part, Part::kRouter);
  const GgufTensor& up = model->tensors[2];
  EXPECT_THAT(up.shape, ElementsAre(3, 2, 64));
  EXPECT_EQ(up.layer, 0);
  EXPECT_EQ(up.expert_count, 3u);
  ASSERT_EQ(up.sources.size(), 3u);
  EXPECT_EQ(up.sources[1].bytes, 2u * 36);
  EXPECT_EQ(up.sources[1].offset, up.sources[0].offset + 72);
  EXPECT_EQ(up.sources[1].order, OrderOf(2, 1));
}

TEST(GgufModel, ListsTheFamiliesThatItCanConvert) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("granite-moe-hybrid", dir.path()));
  const auto source = MoeModel::Open(dir.path());
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(FindConverter(source->family().name), nullptr);
  const auto model = ToGguf(*source, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, testing::AllOf(HasSubstr("GGUF output: expected family "),
                                                    HasSubstr(" or mixtral or "),
                                                    HasSubstr(", found \"granite-moe-hybrid\"")));
  EXPECT_THAT(model.error().hint, HasSubstr("--format safetensors"));
}

TEST(GgufModel, RefusesAnIndexWithoutItsFiles) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "whole"));
  fs::copy(dir / "whole" / "model.safetensors.index.json", dir.path());
  fs::copy(dir / "whole" / "config.json", dir.path());
  const auto source = MoeModel::Open(dir / "model.safetensors.index.json");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT(ToGguf(*source, {}).error().message, HasSubstr("found an index without its files"));
}

TEST(GgufTensor, CountsElementsAndBytes) {
  GgufTensor tensor;
  tensor.shape = {3, 2, 64};
  tensor.type = quant::FindFormat("q4_0");
  EXPECT_EQ(tensor.elements(), 384u);
  EXPECT_EQ(tensor.row_values(), 64u);
  EXPECT_EQ(tensor.bytes(), 384u / 32 * 18);
  tensor.shape = {0, 0};
  EXPECT_EQ(tensor.bytes(), 0u);
}

TEST(Converters, AreListedOnceEach) {
  for (const GgufConverter& row : AllConverters()) {
    EXPECT_EQ(FindConverter(row.family), &row);
    EXPECT_NE(row.convert, nullptr);
    EXPECT_FALSE(row.architecture.empty());
  }
}

}  // namespace
}  // namespace moepack
