#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/graph/model_spec.h"

namespace moepack {
namespace {

using testing::HasSubstr;

ModelSpec SpecOfQwen4Exp(const GgufMetadata& keys) {
  auto spec = ReadModelSpec("m.gguf", keys);
  EXPECT_TRUE(spec.has_value()) << (spec ? "" : spec.error().message);
  return spec ? *spec : ModelSpec{};
}

std::string RefusalOfQwen4Exp(const GgufMetadata& keys) {
  const auto spec = ReadModelSpec("m.gguf", keys);
  return spec ? "no error" : spec.error().message;
}

GgufMetadata Qwen4Exp() {
  GgufMetadata keys;
  keys.Set("general.architecture", GgufValue::String("qwen4exp"));
  const std::pair<const char*, uint32_t> numbers[] = {{"block_count", 8},
                                                      {"context_length", 2048},
                                                      {"embedding_length", 256},
                                                      {"attention.head_count", 8},
                                                      {"attention.head_count_kv", 2},
                                                      {"expert_count", 16},
                                                      {"expert_used_count", 2},
                                                      {"ssm.conv_kernel", 4},
                                                      {"ssm.state_size", 8},
                                                      {"ssm.group_count", 2},
                                                      {"ssm.time_step_rank", 4},
                                                      {"ssm.inner_size", 32},
                                                      {"hyper_connection.count", 4},
                                                      {"hyper_connection.low_rank", 16},
                                                      {"attention.indexer.head_count", 2},
                                                      {"attention.indexer.key_length", 32},
                                                      {"attention.indexer.top_k", 16},
                                                      {"ple.ngram_size", 3},
                                                      {"ple.heads_per_ngram", 1},
                                                      {"ple.conv_kernel", 4},
                                                      {"ple.eos_token_id", 9},
                                                      {"embedding_length_per_layer_input", 8}};
  for (const auto& [key, number] : numbers)
    keys.Set(std::string("qwen4exp.") + key, GgufValue::U32(number));
  keys.Set("qwen4exp.attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5f));
  keys.Set("qwen4exp.attention.compress_ratios",
           GgufValue::I32s(std::vector<int32_t>{0, 0, 0, 4, 0, 0, 0, 4}));
  keys.Set("qwen4exp.ple.layers", GgufValue::I32s(std::vector<int32_t>{1}));
  const std::pair<const char*, std::vector<uint64_t>> lists[] = {
      {"layer_multipliers", {uint64_t{1} << 60, 5, 7}},
      {"head_offsets", {0, 41}},
      {"head_vocab_sizes", {41, 43}}};
  for (const auto& [key, list] : lists)
    keys.Set(std::string("qwen4exp.ple.") + key, GgufValue::U64s(list));
  return keys;
}

TEST(ModelSpec, Qwen4ExpHasStreamsPooledBlocksAndNgrams) {
  const ModelSpec spec = SpecOfQwen4Exp(Qwen4Exp());
  EXPECT_EQ(spec.delta, (DeltaShape{2, 4, 8, 4, true, true}));
  EXPECT_EQ(spec.streams.count, 4u);
  EXPECT_EQ(spec.streams.low_rank, 16u);
  EXPECT_TRUE(spec.streams.gated());
  EXPECT_EQ(spec.stream_width(), 4 * spec.width);
  EXPECT_EQ(spec.blocks, (BlockShape{2, 32, 4, 4, 0, true}));
  EXPECT_FALSE(spec.layer[2].picks_blocks);
  EXPECT_TRUE(spec.layer[3].picks_blocks);
  EXPECT_TRUE(spec.layer[1].embeds_ngrams);
  EXPECT_FALSE(spec.layer[0].embeds_ngrams);
  EXPECT_EQ(spec.ngrams.multipliers, (std::vector<uint64_t>{uint64_t{1} << 60, 5, 7}));
  EXPECT_EQ(spec.ngrams.picks(), 2u);
  EXPECT_EQ(spec.ngrams.state().kernel, 10u) << "nine tokens before the last one";
}

TEST(ModelSpec, RefusesWhatQwen4ExpCannotHave) {
  GgufMetadata keys = Qwen4Exp();
  keys.Set("qwen4exp.attention.indexer.top_k", GgufValue::U32(18));
  EXPECT_THAT(RefusalOfQwen4Exp(keys),
              HasSubstr("an indexer that picks 18 keys in blocks of 4 does not"));
  keys = Qwen4Exp();
  keys.Set("qwen4exp.ple.layers", GgufValue::I32s(std::vector<int32_t>{3}));
  EXPECT_EQ(RefusalOfQwen4Exp(keys),
            "m.gguf: qwen4exp.ple.layers: expected one layer with linear attention, found layer 3");
  keys = Qwen4Exp();
  keys.Set("qwen4exp.ple.head_offsets", GgufValue::U64s(std::vector<uint64_t>{0}));
  EXPECT_EQ(RefusalOfQwen4Exp(keys),
            "m.gguf: qwen4exp.ple.head_offsets: expected a list of 2 numbers, found an array of 1");
  keys = Qwen4Exp();
  keys.Remove("qwen4exp.ple.layer_multipliers");
  EXPECT_EQ(
      RefusalOfQwen4Exp(keys),
      "m.gguf: qwen4exp.ple.layer_multipliers: expected a list of 3 numbers, found no such key");
  keys = Qwen4Exp();
  keys.Set("qwen4exp.hyper_connection.count", GgufValue::U32(65));
  EXPECT_EQ(RefusalOfQwen4Exp(keys),
            "m.gguf: qwen4exp.hyper_connection.count: expected at most 64, found 65");
}

}  // namespace
}  // namespace moepack
