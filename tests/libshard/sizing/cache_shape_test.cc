#include "libshard/sizing/cache_shape.h"

#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/family_find.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

Result<CacheShape> ShapeOf(const std::string& text) {
  SHARD_TRY(const ModelConfig model, ParseModelConfig("config.json", text));
  SHARD_TRY(const Family* family, FindFamily("config.json", model));
  SHARD_TRY(const HfConfig config, HfConfig::Parse("config.json", text));
  return ConfigCacheShape(config, model, *family);
}

CacheShape Shape(const std::string& text) {
  const auto shape = ShapeOf(text);
  EXPECT_TRUE(shape) << shape.error().message;
  return shape ? *shape : CacheShape();
}

// The numbers of a config, with the fields of a family after them.
std::string ConfigText(const std::string& architecture, const std::string& fields) {
  return Cat(R"({"architectures": [")", architecture, R"("], "num_experts": 8,
    "n_routed_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2, )",
             fields, "}");
}

std::string Attention(uint32_t layers, uint32_t heads, uint32_t key_heads, uint32_t size) {
  return Cat(R"("num_hidden_layers": )", layers, R"(, "num_attention_heads": )", heads,
             R"(, "num_key_value_heads": )", key_heads, R"(, "head_dim": )", size,
             R"(, "hidden_size": 2048)");
}

uint64_t Bytes(const CacheShape& shape, uint64_t context, uint64_t sessions, const char* type) {
  const auto bytes = CacheBytes(shape, {context, sessions, *CacheType(type)});
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? *bytes : 0;
}

// Qwen3-30B-A3B: 48 layers of 4 key heads x 128, keys and values, 2 bytes: 98,304 per token.
TEST(CacheShape, IsKeyHeadsTimesHeadSizeForGroupedAttention) {
  const CacheShape shape = Shape(ConfigText("Qwen3MoeForCausalLM", Attention(48, 32, 4, 128)));
  ASSERT_EQ(shape.size(), 48u);
  EXPECT_EQ(shape[7], (CacheLayer{.layer = 7, .key = 512, .value = 512}));
  EXPECT_EQ(Bytes(shape, 32768, 1, "f16"), uint64_t{98'304} * 32768);
  EXPECT_EQ(Bytes(shape, 32768, 4, "q8_0"), uint64_t{98'304} / 64 * 34 * 32768 * 4);
}

TEST(CacheShape, AContextIsRoundedUpTo256Tokens) {
  const CacheShape shape = Shape(ConfigText("Qwen3MoeForCausalLM", Attention(1, 32, 4, 128)));
  EXPECT_EQ(Bytes(shape, 1, 1, "f16"), 2048u * 256);
  EXPECT_EQ(Bytes(shape, 257, 3, "f16"), 2048u * 512 * 3);
}

// DeepSeek-V3: the latent of 512 and 64 numbers with rope per layer and token, no values.
TEST(CacheShape, IsTheLatentAndTheRopePartForLatentAttention) {
  const std::string fields = R"("num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128)";
  const CacheShape shape = Shape(ConfigText("DeepseekV3ForCausalLM", fields));
  EXPECT_EQ(shape[60], (CacheLayer{.layer = 60, .key = 576}));
  EXPECT_EQ(Bytes(shape, 256, 1, "f16"), 70'272u * 256);
  const CacheShape indexed =
      Shape(ConfigText("DeepseekV3ForCausalLM", fields + R"(, "index_head_dim": 128)"));
  EXPECT_EQ(indexed[0].key, 704u);
}

// DeepSeek-V4-Flash: a window in all layers; a key for each 4 tokens, and one of the indexer, or a
// key for each 128. In F32 what 8 tokens give to two keys and to two of the indexer, or 128 to one.
TEST(CacheShape, CompressedKeysAreOnePerBlock) {
  const CacheShape shape = Shape(ConfigText("DeepseekV4ForCausalLM", Attention(3, 64, 1, 512) +
                                                                         R"(, "sliding_window": 128,
        "index_head_dim": 128, "compress_ratios": [0, 4, 128, 0])"));
  ASSERT_EQ(shape.size(), 3u);
  EXPECT_EQ(shape[0], (CacheLayer{.layer = 0, .key = 512, .window = 128}));
  EXPECT_EQ(shape[1], (CacheLayer{.layer = 1,
                                  .key = 512,
                                  .window = 128,
                                  .state = 2 * 8 * 2 * (512 + 128),
                                  .compressed = 512 + 128,
                                  .ratio = 4}));
  EXPECT_EQ(shape[2], (CacheLayer{.layer = 2,
                                  .key = 512,
                                  .window = 128,
                                  .state = 2 * 128 * 512,
                                  .compressed = 512,
                                  .ratio = 128}));
  const uint64_t states = 4 * (2 * 8 * 2 * 640 + 2 * 128 * 512);
  EXPECT_EQ(Bytes(shape, 65536, 1, "f16"), 3 * 1024u * 768 + 1280u * 16384 + 1024u * 512 + states);
  // Cells of blocks are rounded up, too.
  EXPECT_EQ(Bytes(shape, 512, 2, "f16"),
            2 * (3 * 1024u * 512 + 1280u * 256 + 1024u * 256 + states));
}

// GLM-5.2's layers share indexers, and MiniMax-M3's dense layers have none.
TEST(CacheShape, OnlyLayersWithAnIndexerOfTheirOwnKeepKeysForIt) {
  const std::string latent = R"("num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 8, "hidden_size": 64, "kv_lora_rank": 32, "q_lora_rank": 32,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "index_head_dim": 12,
    "index_n_heads": 2, "indexer_types": ["full", "shared", "full"])";
  const CacheShape shared = Shape(ConfigText("GlmMoeDsaForCausalLM", latent));
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_EQ(shared[0].key, 52u);
  EXPECT_EQ(shared[1].key, 40u);
  const std::string sparse = R"(, "intermediate_size": 64, "moe_layer_freq": [0, 1],
    "sparse_attention_config": {"sparse_index_dim": 16})";
  const CacheShape dense =
      Shape(ConfigText("MiniMaxM3SparseForConditionalGeneration", Attention(2, 8, 2, 32) + sparse));
  ASSERT_EQ(dense.size(), 2u);
  EXPECT_EQ(dense[0].key, 64u);
  EXPECT_EQ(dense[1].key, 80u);
}

// gpt-oss: every second layer attends to the last 128 tokens, and keeps a batch of 512 in addition.
TEST(CacheShape, AWindowKeepsItsTokensPlusOneBatch) {
  const CacheShape shape = Shape(ConfigText(
      "GptOssForCausalLM",
      Attention(2, 64, 8, 64) +
          R"(, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"])"));
  EXPECT_EQ(shape[0], (CacheLayer{.layer = 0, .key = 512, .value = 512, .window = 128}));
  EXPECT_EQ(shape[1].window, 0u);
  EXPECT_EQ(Bytes(shape, 32768, 1, "f16"), 2048u * (768 + 32768));
  EXPECT_EQ(Bytes(shape, 256, 1, "f16"), 2048u * (256 + 256));
}

// Qwen3-Next-80B-A3B: 36 layers of linear attention keep 548,864 numbers each, as llama.cpp prints
// (75.38 MiB in all); 12 layers of full attention keep 24,576 bytes per token in F16.
TEST(CacheShape, LinearAttentionKeepsAStatePerSession) {
  const CacheShape shape = Shape(ConfigText(
      "Qwen3NextForCausalLM",
      Attention(48, 16, 2, 256) + R"(, "full_attention_interval": 4, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4)"));
  EXPECT_EQ(shape[0], (CacheLayer{.layer = 0, .state = 548'864}));
  EXPECT_EQ(shape[3], (CacheLayer{.layer = 3, .key = 512, .value = 512}));
  EXPECT_EQ(Bytes(shape, 1024, 2, "f16"), 2 * (79'036'416u + 24'576u * 1024));
}

// What transformers leaves out of a saved config, because it has the usual value, counts as in
// conversion: the interval of full attention, the size of a head and those of linear attention.
TEST(CacheShape, AbsentFieldsHaveTheValuesThatConversionGivesThem) {
  const CacheShape shape = Shape(ConfigText("Qwen3NextForCausalLM",
                                            R"("num_hidden_layers": 8, "num_attention_heads": 16,
        "num_key_value_heads": 2, "hidden_size": 2048)"));
  ASSERT_EQ(shape.size(), 8u);
  for (const CacheLayer& layer : shape) {
    const CacheLayer linear = {.layer = layer.layer, .state = 548'864};
    const CacheLayer full = {.layer = layer.layer, .key = 512, .value = 512};
    EXPECT_EQ(layer, layer.layer % 4 == 3 ? full : linear) << layer.layer;
  }
}

// Jamba: one layer of each period has attention.
TEST(CacheShape, APeriodTellsAttentionFromMamba) {
  const CacheShape shape =
      Shape(ConfigText("JambaForCausalLM", Attention(4, 32, 8, 128) +
                                               R"(, "attn_layer_period": 4, "attn_layer_offset": 1,
        "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2)"));
  EXPECT_EQ(shape[0], (CacheLayer{.layer = 0, .state = 3 * 4096 + 4096 * 16}));
  EXPECT_EQ(shape[1], (CacheLayer{.layer = 1, .key = 1024, .value = 1024}));
}

// Nemotron-3-Nano: 64 heads of 64, state 128, 8 groups, kernel 4.
TEST(CacheShape, MambaKeepsItsConvolutionAndStateAndExpertsKeepNothing) {
  const CacheShape shape = Shape(ConfigText(
      "NemotronHForCausalLM",
      Attention(3, 32, 2, 128) + R"(, "hybrid_override_pattern": "ME*", "ssm_state_size": 128,
        "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4)"));
  EXPECT_EQ(shape[0].state, 3u * (4096 + 2 * 8 * 128) + 4096 * 128);
  EXPECT_EQ(shape[1], (CacheLayer{.layer = 1}));
  EXPECT_EQ(shape[2], (CacheLayer{.layer = 2, .key = 256, .value = 256}));
}

TEST(CacheShape, HeadsOfWindowedAndGlobalLayersMayDiffer) {
  const CacheShape gemma =
      Shape(ConfigText("Gemma4ForCausalLM", Attention(2, 16, 8, 256) +
                                                R"(, "sliding_window": 1024, "global_head_dim": 512,
        "num_global_key_value_heads": 2, "layer_types": ["sliding_attention", "full_attention"])"));
  EXPECT_EQ(gemma[0], (CacheLayer{.layer = 0, .key = 2048, .value = 2048, .window = 1024}));
  EXPECT_EQ(gemma[1], (CacheLayer{.layer = 1, .key = 1024, .value = 1024}));
  const CacheShape mimo =
      Shape(ConfigText("MiMoV2FlashForCausalLM",
                       Attention(2, 64, 4, 192) + R"(, "v_head_dim": 128, "sliding_window": 128,
        "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
        "hybrid_layer_pattern": [0, 1])"));
  EXPECT_EQ(mimo[0], (CacheLayer{.layer = 0, .key = 768, .value = 512}));
  EXPECT_EQ(mimo[1], (CacheLayer{.layer = 1, .key = 1536, .value = 1024, .window = 128}));
  const CacheShape step = Shape(
      ConfigText("Step3p5ForCausalLM",
                 R"("num_hidden_layers": 2, "num_attention_heads": 64, "num_attention_groups": 8,
        "hidden_size": 4096, "head_dim": 128, "sliding_window": 512,
        "layer_types": ["full_attention", "sliding_attention"],
        "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 4,
        "head_dim": 64})"));
  EXPECT_EQ(step[0], (CacheLayer{.layer = 0, .key = 1024, .value = 1024}));
  EXPECT_EQ(step[1], (CacheLayer{.layer = 1, .key = 256, .value = 256, .window = 512}));
}

TEST(CacheShape, AnUnknownKindOfAttentionIsRefused) {
  const auto shape = ShapeOf(ConfigText(
      "MiniMaxM1ForCausalLM", Attention(2, 64, 8, 128) + R"(, "attn_type_list": [1, 0])"));
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, Code::kUnsupported);
  EXPECT_EQ(shape.error().message,
            "config.json: layer 1: size of the cache: expected a known kind of attention, found "
            "\"0\"");
}

TEST(CacheShape, FamiliesWithRecurrentLayersMustNameThem) {
  const auto shape = ShapeOf(ConfigText("Lfm2MoeForCausalLM", Attention(1, 32, 8, 64)));
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, Code::kUnsupported);
  EXPECT_EQ(shape.error().message,
            "config.json: layer 0: size of the cache: expected the kind of the layer "
            "(layer_types), found none");
}

TEST(CacheShape, NamesSizesThatTheConfigLacks) {
  const auto window = ShapeOf(ConfigText(
      "Gemma4ForCausalLM", Attention(1, 64, 8, 64) + R"(, "layer_types": ["sliding_attention"])"));
  ASSERT_FALSE(window);
  EXPECT_EQ(window.error().message,
            "config.json: layer 0: size of the cache: sliding_window: expected the tokens of the "
            "window, found none");
  const auto heads = ShapeOf(ConfigText("Qwen2MoeForCausalLM", R"("num_hidden_layers": 1)"));
  ASSERT_FALSE(heads);
  EXPECT_EQ(heads.error().message,
            "config.json: layer 0: size of the cache: num_attention_heads: expected a size, found "
            "none");
  const auto absurd = ShapeOf(ConfigText(
      "Qwen2MoeForCausalLM", R"("num_hidden_layers": 1, "num_attention_heads": 2000000)"));
  ASSERT_FALSE(absurd);
  EXPECT_EQ(absurd.error().message,
            "config.json: num_attention_heads: expected at most 1048576, found 2000000");
}

TEST(CacheShape, AcceptsTheCacheTypesOfLlamaCpp) {
  EXPECT_EQ((*CacheType("Q8_0"))->name, "q8_0");
  const auto type = CacheType("q4_K");
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().message,
            "expected one of f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1, found "
            "\"q4_K\"");
}

TEST(CacheShape, RowsMustFillBlocksOfTheType) {
  const auto bytes =
      CacheBytes({{.layer = 4, .key = 48, .value = 48}}, {256, 1, *CacheType("q8_0")});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message,
            "--kv-type q8_0: layer 4: expected a multiple of 32 numbers per token, found 48");
}

TEST(CacheShape, ACacheOfMoreThan2To63BytesIsRefused) {
  const CacheShape shape = {{.layer = 0, .key = 1u << 30, .value = 1u << 30}};
  const auto bytes = CacheBytes(shape, {1u << 30, 1u << 20, *CacheType("f32")});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message,
            "--context and --sessions: expected a cache of fewer than 2^63 bytes, found more");
}

// The cache shape from config.json and the one from the keys that conversion makes of it agree.
TEST(CacheShape, IsTheSameFromAConfigAndFromItsGgufKeys) {
  size_t compared = 0;
  for (const std::string& layout : fixtures::Layouts()) {
    const fixtures::TempDir dir;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir / "model", {.sparse = true}));
    const auto model = MoeModel::Open(dir / "model");
    ASSERT_TRUE(model) << layout;
    ConvertOptions keys;
    keys.part = ConvertOptions::Part::kKeys;
    const auto view = ToGguf(*model, keys);
    if (!view) continue;
    const auto from_config = ReadCacheShape(*model);
    const auto from_keys = GgufCacheShape(layout, view->metadata);
    ASSERT_TRUE(from_config) << layout << ": " << from_config.error().message;
    ASSERT_TRUE(from_keys) << layout << ": " << from_keys.error().message;
    EXPECT_TRUE(*from_config == *from_keys) << layout;
    ++compared;
  }
  EXPECT_GE(compared, 12u);
}

GgufMetadata Keys(const std::string& architecture) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  const auto set = [&](const char* name, uint32_t value) {
    metadata.Set(Cat(architecture, ".", name), GgufValue::U32(value));
  };
  set("block_count", 4);
  set("embedding_length", 2048);
  set("attention.head_count", 16);
  set("attention.head_count_kv", 4);
  return metadata;
}

TEST(CacheShape, DerivesMissingLengthsFromTheWidthOfAHead) {
  const auto shape = GgufCacheShape("m.gguf", Keys("qwen3moe"));
  ASSERT_TRUE(shape) << shape.error().message;
  ASSERT_EQ(shape->size(), 4u);
  EXPECT_EQ((*shape)[3], (CacheLayer{.layer = 3, .key = 512, .value = 512}));
}

TEST(CacheShape, BlocksForMultiTokenPredictionKeepNothing) {
  GgufMetadata metadata = Keys("glm4moe");
  metadata.Set("glm4moe.nextn_predict_layers", GgufValue::U32(1));
  const auto shape = GgufCacheShape("m.gguf", metadata);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ(shape->size(), 3u);
}

TEST(CacheShape, LayersWithoutKeyHeadsAreRecurrent) {
  GgufMetadata metadata = Keys("jamba");
  metadata.Set("jamba.attention.head_count_kv", GgufValue::U32s(std::vector<uint32_t>{0, 4, 0, 0}));
  metadata.Set("jamba.ssm.conv_kernel", GgufValue::U32(4));
  metadata.Set("jamba.ssm.inner_size", GgufValue::U32(4096));
  metadata.Set("jamba.ssm.state_size", GgufValue::U32(16));
  const auto shape = GgufCacheShape("m.gguf", metadata);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ((*shape)[0], (CacheLayer{.layer = 0, .state = 3 * 4096 + 16 * 4096}));
  EXPECT_EQ((*shape)[1].key, 512u);
}

TEST(CacheShape, BlocksToPickFromAreNoCompressedKeys) {
  GgufMetadata metadata = Keys("qwen4exp");
  metadata.Set("qwen4exp.attention.recurrent_layers", GgufValue::Bools({true, true, true, false}));
  metadata.Set("qwen4exp.attention.compress_ratios",
               GgufValue::I32s(std::vector<int32_t>{0, 0, 0, 4}));
  metadata.Set("qwen4exp.attention.indexer.key_length", GgufValue::U32(64));
  const auto shape = GgufCacheShape("m.gguf", metadata);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ((*shape)[3], (CacheLayer{.layer = 3, .key = 512 + 64, .value = 512}));
}

TEST(CacheShape, AListOfWindowsNeedsAnEntryPerLayer) {
  GgufMetadata metadata = Keys("gemma4");
  metadata.Set("gemma4.attention.sliding_window", GgufValue::U32(1024));
  metadata.Set("gemma4.attention.sliding_window_pattern",
               GgufValue::Bools({true, true, false, true}));
  const auto shape = GgufCacheShape("m.gguf", metadata);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ((*shape)[1].window, 1024u);
  EXPECT_EQ((*shape)[2].window, 0u);
  metadata.Set("gemma4.attention.sliding_window_pattern", GgufValue::Bools({true}));
  const auto refused = GgufCacheShape("m.gguf", metadata);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
}

TEST(CacheShape, IsUnknownWithoutHeadCounts) {
  GgufMetadata metadata = Keys("qwen3moe");
  metadata.Remove("qwen3moe.attention.head_count");
  metadata.Remove("qwen3moe.attention.head_count_kv");
  const auto shape = GgufCacheShape("m.gguf", metadata);
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().message,
            "m.gguf: size of the cache: key \"qwen3moe.attention.key_length\": expected a size, "
            "found none");
}

// 512 tokens x 4 bytes x (151,936 logits + 8 x 2,048 + 8 x (2,048 + 3 x 768) + 32,768 of the mask).
TEST(ComputeBytes, CoverABatchInF32) {
  ModelConfig config;
  config.hidden_size = 2048;
  config.expert_intermediate_size = 768;
  config.vocab_size = 151936;
  const MoeModel model = ModelForTest(config).Family("qwen3-moe").Layers(2, 128, 8).Build();
  EXPECT_EQ(ComputeBytes(model, 32768), 512u * 4 * (151936 + 16384 + 8 * 4352 + 32768));
}

}  // namespace

}  // namespace moepack
