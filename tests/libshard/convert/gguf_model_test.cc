#include "libshard/convert/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/gguf_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
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
                             Entry("blk.0.ffn_up_exps.weight", "q4_0", {3, 2, 64}),
                             Entry("blk.0.ffn_gate_exps.weight", "q4_0", {3, 2, 64}),
                             Entry("blk.0.ffn_down_exps.weight", "f16", {3, 64, 2}),
                             Entry("output_norm.weight", "f32", {64})});
  const auto source = MoeModel::Open(dir / "m.gguf");
  ASSERT_TRUE(source) << source.error().message;
  const auto model = ToGguf(*source, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture(), "qwen3moe");
  EXPECT_EQ(model->metadata.String("own.key"), "kept");
  for (const char* key : {"split.no", "split.count", "general.alignment"}) {
    EXPECT_EQ(model->metadata.Find(key), nullptr) << key;
  }
  ASSERT_EQ(model->tensors.size(), 6u);
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

// A model of `blocks` blocks whose keys announce one more, for multi-token prediction.
fixtures::GgufFile WithoutItsMtpBlock(uint32_t blocks,
                                      const std::string& architecture = "qwen3next") {
  fixtures::GgufFile file = fixtures::MiniGguf(architecture, blocks, 4);
  file.pairs[1] = fixtures::GgufPairU32(architecture + ".block_count", blocks + 1);
  file.pairs.push_back(fixtures::GgufPairU32(architecture + ".nextn_predict_layers", 1));
  std::string heads;
  for (uint32_t block = 0; block <= blocks; ++block) heads += fixtures::GgufNumber(block + 1, 4);
  file.pairs.push_back({architecture + ".attention.head_count_kv", fixtures::kGgufArray,
                        fixtures::GgufList(fixtures::kGgufI32, blocks + 1, heads)});
  return file;
}

// Adds the tensors that make a block of MiniGguf one for multi-token prediction.
void AddNextn(uint32_t block, fixtures::GgufFile& file) {
  const auto add = [&](const char* name, const std::vector<uint64_t>& dims, size_t bytes) {
    file.tensors.push_back({.name = Cat("blk.", block, ".nextn.", name, ".weight"),
                            .dims = dims,
                            .type = fixtures::kGgufTypeF32,
                            .bytes = std::string(bytes, '\0')});
  };
  add("eh_proj", {4, 2}, 32);
  add("enorm", {2}, 8);
  add("hnorm", {2}, 8);
}

ConvertOptions NoMtp() {
  ConvertOptions options;
  options.mtp = false;
  return options;
}

Result<GgufModel> ViewOfFile(const fixtures::GgufFile& file, const ConvertOptions& options) {
  const fixtures::TempDir dir;
  EXPECT_TRUE(fixtures::WriteFile(dir / "m.gguf", fixtures::GgufBytes(file)));
  SHARD_TRY(const MoeModel model, MoeModel::Open(dir / "m.gguf"));
  return ToGguf(model, options);
}

// llama.cpp #25024, #26916
TEST(GgufModel, NamesTheAnnouncedBlockThatTheFileDoesNotHoldAndTheKeys) {
  const auto view = ViewOfFile(WithoutItsMtpBlock(2), {});
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, Code::kCorrupt);
  EXPECT_THAT(view.error().message,
              HasSubstr("m.gguf: block 2 for multi-token prediction: expected tensors, as "
                        "qwen3next.block_count is 3 and qwen3next.nextn_predict_layers is 1, found "
                        "none"));
  EXPECT_THAT(view.error().hint, HasSubstr("--no-mtp"));

  fixtures::GgufFile torn = fixtures::MiniGguf("qwen3next", 3, 4);
  std::erase_if(torn.tensors, [](const auto& tensor) { return tensor.name.starts_with("blk.1."); });
  const auto lacking = ViewOfFile(torn, {});
  ASSERT_FALSE(lacking);
  EXPECT_THAT(lacking.error().message,
              HasSubstr("block 1: expected tensors, as qwen3next.block_count is 3, found none"));
}

// Stock llama.cpp v0.5.0 loads these: its loaders ask only for the decoder's blocks.
TEST(GgufModel, OnlyWarnsOfAMissingBlockWhereLlamaCppLoadsTheFileWithoutIt) {
  for (const char* architecture : {"qwen3moe", "glm4moe", "deepseek2", "step35"}) {
    const auto view = ViewOfFile(WithoutItsMtpBlock(2, architecture), {});
    ASSERT_TRUE(view) << view.error().message;
    EXPECT_THAT(view->faults,
                ElementsAre(testing::AllOf(HasSubstr("block 2 for multi-token prediction"),
                                           HasSubstr("--no-mtp corrects the keys"))));
  }
}

TEST(GgufModel, RefusesAFileThatLacksAnOrdinaryTensorAsTheCheckDoes) {
  for (const std::string name : {"output_norm.weight", "blk.1.attn_norm.weight"}) {
    fixtures::GgufFile torn = fixtures::MiniGguf("qwen3moe", 3, 4);
    std::erase_if(torn.tensors, [&](const auto& tensor) { return tensor.name == name; });
    const auto view = ViewOfFile(torn, {});
    ASSERT_FALSE(view) << name;
    EXPECT_EQ(view.error().code, Code::kCorrupt);
    EXPECT_THAT(view.error().message, HasSubstr("missing: ")) << name;
    EXPECT_THAT(view.error().hint, HasSubstr("list-tensors")) << name;
  }
}

TEST(GgufModel, ForRunningTheAnnouncedBlockMayBeMissing) {
  ConvertOptions running;
  running.part = ConvertOptions::Part::kTokenizerIfUsable;
  EXPECT_TRUE(ViewOfFile(WithoutItsMtpBlock(2), running));
}

TEST(GgufModel, WithoutMtpTheKeysOfAGgufAnnounceOnlyTheBlocksThatAreLeft) {
  fixtures::GgufFile with = fixtures::MiniGguf("qwen3next", 3, 4);
  with.pairs.push_back(fixtures::GgufPairU32("qwen3next.nextn_predict_layers", 1));
  AddNextn(2, with);
  const auto whole = ViewOfFile(with, {});
  ASSERT_TRUE(whole) << whole.error().message;
  for (const fixtures::GgufFile& file : {WithoutItsMtpBlock(2), with}) {
    const auto view = ViewOfFile(file, NoMtp());
    ASSERT_TRUE(view) << view.error().message;
    EXPECT_EQ(view->metadata.Uint("qwen3next.block_count"), 2u);
    EXPECT_EQ(view->metadata.Find("qwen3next.nextn_predict_layers"), nullptr);
    EXPECT_EQ(view->tensors.size(), whole->tensors.size() - 8) << "the block's own tensors";
    for (const GgufTensor& tensor : view->tensors) EXPECT_LT(tensor.layer.value_or(0), 2u);
  }
  const auto view = ViewOfFile(WithoutItsMtpBlock(2), NoMtp());
  EXPECT_THAT(view->metadata.Find("qwen3next.attention.head_count_kv")->AsUints(),
              testing::Optional(ElementsAre(1, 2)));
}

// The count in the key may be wrong, and then a layer of the decoder would be lost.
TEST(GgufModel, NamesTheOrdinaryBlockThatTheKeysAnnounceForMultiTokenPrediction) {
  const auto file = [](const char* architecture) {
    fixtures::GgufFile made = fixtures::MiniGguf(architecture, 3, 4);
    made.pairs.push_back(fixtures::GgufPairU32(Cat(architecture, ".nextn_predict_layers"), 1));
    return made;
  };
  const auto left_out = ViewOfFile(file("qwen3next"), NoMtp());
  ASSERT_TRUE(left_out) << left_out.error().message;
  EXPECT_THAT(left_out->faults,
              ElementsAre(HasSubstr("m.gguf: block 2: expected tensors like "
                                    "blk.2.nextn.eh_proj.weight, as qwen3next.nextn_predict_layers "
                                    "is 1, found an ordinary block, which --no-mtp leaves out")));
  const auto kept = ViewOfFile(file("glm4moe"), {});
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_THAT(kept->faults,
              ElementsAre(HasSubstr("found an ordinary block, which llama.cpp does not run")));

  fixtures::GgufFile right = file("glm4moe");
  AddNextn(2, right);
  for (const ConvertOptions& options : {ConvertOptions(), NoMtp()}) {
    const auto view = ViewOfFile(right, options);
    ASSERT_TRUE(view) << view.error().message;
    EXPECT_TRUE(view->faults.empty());
  }
  EXPECT_TRUE(ViewOfFile(WithoutItsMtpBlock(2), NoMtp())->faults.empty())
      << "nothing of it is there, and the keys are corrected";
}

TEST(GgufModel, WithoutMtpHasNoEffectOnAGgufThatAnnouncesNoBlock) {
  const auto view = ViewOfFile(fixtures::MiniGguf("qwen3next", 2, 4), NoMtp());
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, Code::kInvalidArgument);
  EXPECT_THAT(view.error().message,
              HasSubstr("its keys announce no block for multi-token prediction"));
}

// llama.cpp #14197: llama-quantize --override-kv wrote an i32
TEST(GgufModel, GivesCountsOfOtherIntegerTypesTheTypeThatLlamaCppReads) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 2, 4);
  for (fixtures::GgufPair& pair : file.pairs) {
    if (pair.key == "qwen3moe.expert_used_count") pair.type = fixtures::kGgufI32;
    if (pair.key != "qwen3moe.expert_count" && pair.key != "qwen3moe.block_count") continue;
    pair.type = fixtures::kGgufU64;
    pair.value += std::string(4, '\0');
  }
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "m.gguf", fixtures::GgufBytes(file)));
  const auto model = MoeModel::Open(dir / "m.gguf");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->warnings(),
              ElementsAre(HasSubstr("m.gguf: key \"qwen3moe.block_count\": expected u32, found u64 "
                                    "(and 2 other keys like it), which llama.cpp refuses; build "
                                    "and quantize write the expected type")));
  const auto view = ToGguf(*model, {});
  ASSERT_TRUE(view) << view.error().message;
  for (const char* key : {"block_count", "expert_count", "expert_used_count"}) {
    EXPECT_EQ(view->metadata.Find(Cat("qwen3moe.", key))->type, GgufType::kU32) << key;
  }
}

TEST(GgufModel, RefusesAKeyWhoseValueDoesNotFitTheTypeThatLlamaCppReads) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 2, 4);
  file.pairs.push_back({"tokenizer.ggml.eos_token_id", fixtures::kGgufI32,
                        fixtures::GgufNumber(static_cast<uint32_t>(-1), 4)});
  const auto eos = ViewOfFile(file, {});
  ASSERT_FALSE(eos);
  EXPECT_EQ(eos.error().code, Code::kCorrupt);
  EXPECT_THAT(eos.error().message,
              HasSubstr("m.gguf: key \"tokenizer.ggml.eos_token_id\": expected a value that fits "
                        "u32, as llama.cpp reads it, found i32 -1"));
  EXPECT_THAT(eos.error().hint, HasSubstr("--remove-metadata tokenizer.ggml.eos_token_id"));

  file.pairs.back() = {"qwen3moe.context_length", fixtures::kGgufU64,
                       fixtures::GgufNumber(uint64_t{1} << 33, 8)};
  const auto context = ViewOfFile(file, {});
  ASSERT_FALSE(context);
  EXPECT_THAT(context.error().message, HasSubstr("found u64 8589934592"));
}

TEST(GgufModel, NamesTheFamilyWithoutAGgufFormAndTheClosestThatHasOne) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("jamba", dir.path()));
  const auto source = MoeModel::Open(dir.path());
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(FindConverter(source->family().name), nullptr);
  const auto model = ToGguf(*source, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message,
              HasSubstr("GGUF output: expected a family that has a GGUF form here, found "
                        "\"jamba\""));
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
