#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/qwen_hybrid_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

const std::string kPle = "model.layers.0.ple.", kPleHash = kPle + "ple_embedding.";

void AddNumbers(ConvertSample& sample, const std::string& name,
                const std::vector<int64_t>& numbers) {
  std::string bytes(numbers.size() * sizeof(int64_t), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  sample.tensors.push_back({name, "I64", {numbers.size()}, bytes});
}

void AddStream(ConvertSample& sample, const std::string& at) {
  sample.Add(at + ".hc_norm.weight", {8});
  sample.Add(at + ".input_mix_weight_down.weight", {3, 8});
  sample.Add(at + ".input_mix_weight_up.weight", {8, 3});
}

// Layer 0 is linear attention with an embedding of n-grams in eleven pieces of two rows of two
// values, layer 1 full attention with an indexer of two heads of two values. Two streams.
QwenHybridSample Qwen38() {
  QwenHybridSample sample("Qwen4ExpForConditionalGeneration", "qwen4_exp");
  for (const char* part : {"layernorm", "mtp.", "model.norm"}) sample.Remove(part);
  sample.config.update({{"mtp_num_hidden_layers", 0},
                        {"hc_count", 2},
                        {"hc_lowrank", 3},
                        {"indexer_n_heads", 2},
                        {"indexer_head_dim", 2},
                        {"indexer_budget", 8},
                        {"indexer_compress_ratio", 4},
                        {"ple_layer_ids", {1}},
                        {"ple_conv_kernel_size", 3},
                        {"ngram_size", 2},
                        {"heads_per_ngram", 2},
                        {"split_ngram_parts", 11},
                        {"eos_token_id", {3, 4}},
                        {"image_token_id", 2}});
  const std::string linear = "model.layers.0.linear_attn.";
  sample.Add(linear + "in_proj_qkv.weight", {16, 4});
  sample.Add(linear + "in_proj_z.weight", {8, 4});
  sample.Add(linear + "in_proj_b.weight", {4, 4});
  sample.Add(linear + "in_proj_a.weight", {4, 4});
  AddStream(sample, "model.hyper_connection_mixer");
  for (const char* layer : {"0", "1"}) {
    for (const char* part : {"attn", "mlp"}) {
      const std::string at = Cat("model.layers.", layer, ".", part, "_hyper_connection");
      AddStream(sample, at);
      sample.Add(at + ".block_inject_weight.weight", {2, 8});
    }
  }
  sample.Add("model.layers.1.self_attn.indexer.index_qk_proj.weight", {6, 4});
  for (const char* part : {"q", "k"})
    sample.Add(Cat("model.layers.1.self_attn.indexer.", part, "_layernorm.weight"), {2});
  sample.Add(kPle + "key_proj.weight", {8, 4});
  sample.Add(kPle + "value_proj.weight", {4, 4});
  sample.Add(kPle + "conv1d.weight", {8, 1, 3});
  for (const char* part : {"key", "query", "conv"})
    sample.Add(Cat(kPle, "norm_", part, ".weight"), {8});
  for (int piece = 0; piece < 11; ++piece)
    sample.Add(Cat(kPleHash, "ngram_embedding.shard_", piece, ".weight"), {2, 2});
  AddNumbers(sample, kPleHash + "layer_multipliers", {9007199254740993, 5});
  AddNumbers(sample, kPleHash + "ngram_heads_offsets", {0, 11});
  AddNumbers(sample, kPleHash + "ngram_heads_vocab_sizes", {11, 11});
  return sample;
}

TEST(Qwen4Exp, JoinsThePiecesOfTheTableByNumber) {
  QwenHybridSample sample = Qwen38();
  const std::vector<float> table = sample.Values(Converted(sample), "per_layer_token_embd.weight");
  std::vector<float> expected;
  for (int piece = 0; piece < 11; ++piece) {
    for (const float value :
         sample.Values(Cat(kPleHash, "ngram_embedding.shard_", piece, ".weight")))
      expected.push_back(value);
  }
  EXPECT_EQ(table, expected) << "piece 10 is the last, not the third";
}

TEST(Qwen4Exp, RequiresEveryPieceOfTheTable) {
  QwenHybridSample sample = Qwen38();
  sample.Remove("shard_7");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("per_layer_token_embd.weight: expected a source tensor "
                        "\"layers.*.ple.ple_embedding.ngram_embedding.shard_7.weight\""));
  sample = Qwen38();
  sample.Reshape(kPleHash + "ngram_embedding.shard_7.weight", {2, 3});
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("as the first piece has"));
}

TEST(Qwen4Exp, WritesTheConstantsOfTheHashWithAllTheirBits) {
  const GgufMetadata keys = ConvertedKeys(Qwen38());
  const auto numbers = [&](const char* key) {
    return keys.Find(Cat("qwen4exp.ple.", key))->AsUints();
  };
  EXPECT_THAT(numbers("layer_multipliers"), Optional(ElementsAre(9007199254740993u, 5u)));
  EXPECT_THAT(numbers("head_offsets"), Optional(ElementsAre(0u, 11u)));
  EXPECT_EQ(keys.Find("qwen4exp.ple.head_vocab_sizes")->ElementType(), GgufType::kU64);
  EXPECT_THAT(numbers("layers"), Optional(ElementsAre(0u))) << "the config counts from 1";
  EXPECT_EQ(keys.Uint("qwen4exp.ple.eos_token_id"), 4u) << "the last of the list";
  EXPECT_EQ(keys.Uint("qwen4exp.embedding_length_per_layer_input"), 2u);
}

TEST(Qwen4Exp, RefusesConstantsThatDoNotFitTheTable) {
  QwenHybridSample sample = Qwen38();
  sample.Remove("ngram_heads_vocab_sizes");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("ngram_heads_vocab_sizes"));
  AddNumbers(sample, kPleHash + "ngram_heads_vocab_sizes", {11, 12});
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("expected those from 11 on of head 1, which has 12, found 22"));
  sample.config["heads_per_ngram"] = 3;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("expected 3 offsets and sizes, found 2"));
}

TEST(Qwen4Exp, SplitsTheIndexerAndAddsOneToNorms) {
  QwenHybridSample sample = Qwen38();
  const GgufModel model = Converted(sample);
  std::vector<float> joined = sample.Values(model, "blk.1.indexer.q_proj.weight");
  for (const float value : sample.Values(model, "blk.1.indexer.k_proj.weight"))
    joined.push_back(value);
  EXPECT_EQ(joined, sample.Values("model.layers.1.self_attn.indexer.index_qk_proj.weight"));
  const std::pair<const char*, const char*> norms[] = {
      {"hyper_connection_mixer.hc_norm", "output_hc_norm"},
      {"layers.0.mlp_hyper_connection.hc_norm", "blk.0.hc_ffn_norm"},
      {"layers.0.ple.norm_conv", "blk.0.ple_norm_conv"},
      {"layers.1.self_attn.indexer.k_layernorm", "blk.1.indexer.k_norm"}};
  for (const auto& [source, target] : norms) {
    std::vector<float> expected = sample.Values(Cat("model.", source, ".weight"));
    for (float& value : expected) value += 1;
    EXPECT_EQ(sample.Values(model, Cat(target, ".weight")), expected) << source;
  }
}

TEST(Qwen4Exp, HasOneEmbeddingOfNGramsInALayerOfLinearAttention) {
  QwenHybridSample sample = Qwen38();
  sample.config["ple_layer_ids"] = {1, 2};
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("expected one layer"));
  sample.config["ple_layer_ids"] = {2};
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("layer 0: expected no blk.0.ple_key.weight as the config has it"));
}

}  // namespace
}  // namespace moepack
