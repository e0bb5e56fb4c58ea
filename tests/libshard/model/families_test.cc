// Tensor names of every family, typed from public knowledge, with their expected classes.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "libshard/base/text/text.h"
#include "libshard/model/family.h"

namespace moepack {
namespace {

// Every family is tested with this many decoder layers; layers beyond are MTP blocks.
constexpr uint32_t kLayers = 100;

// Families, and below each of them: part, role, layer, expert, expert axis, name.
constexpr const char* kSamples = R"(
mixtral
  expert gate 3 7 - model.layers.3.block_sparse_moe.experts.7.w1.weight
  expert down 3 7 - model.layers.3.block_sparse_moe.experts.7.w2.qweight
  router router 3 - 0 model.layers.3.block_sparse_moe.gate.weight
  router router 3 - - model.layers.3.block_sparse_moe.gate.qweight
  router router 3 - - model.layers.3.block_sparse_moe.gate.weight_scale_inv
  expert up 3 - 0 model.layers.3.block_sparse_moe.switch_mlp.up_proj.scales
  expert gate_up 3 - 0 model.layers.3.mlp.experts.gate_up_proj
  trunk attention 3 - - model.layers.3.self_attn.q_proj.weight
  trunk norm 3 - - model.layers.3.input_layernorm.weight
  trunk embedding - - - model.embed_tokens.weight
  trunk head - - - lm_head.weight
qwen2-moe
  expert down 0 59 - model.layers.0.mlp.experts.59.down_proj.weight
  shared gate 0 - - model.layers.0.mlp.shared_expert.gate_proj.weight
  shared shared_gate 0 - - model.layers.0.mlp.shared_expert_gate.weight
  router router 0 - 0 model.layers.0.mlp.gate.weight
  trunk attention 0 - - model.layers.0.self_attn.k_proj.bias
qwen3-moe
  expert up 47 127 - model.layers.47.mlp.experts.127.up_proj.weight_scale_inv
  router router 47 - 0 model.layers.47.mlp.gate.weight
  trunk attention 47 - - model.layers.47.self_attn.q_norm.weight
  trunk dense_mlp 0 - - model.layers.0.mlp.up_proj.weight
qwen3-vl-moe
  expert gate_up 5 - 0 model.language_model.layers.5.mlp.experts.gate_up_proj
  expert down 5 - 0 model.language_model.layers.5.mlp.experts.down_proj
  router router 5 - 0 model.language_model.layers.5.mlp.gate.weight
  trunk vision - - - model.visual.blocks.0.mlp.linear_fc1.weight
  trunk vision - - - model.visual.deepstack_merger_list.2.norm.bias
qwen3-omni-moe
  expert gate 5 9 - thinker.model.layers.5.mlp.experts.9.gate_proj.weight
  router router 5 - 0 thinker.model.layers.5.mlp.gate.weight
  trunk head - - - thinker.lm_head.weight
  trunk audio - - - thinker.audio_tower.layers.0.fc1.weight
  trunk audio - - - talker.model.layers.0.mlp.experts.3.up_proj.weight
qwen3-next
  trunk attention 2 - - model.layers.2.linear_attn.in_proj_qkvz.weight
  expert gate 2 511 - model.layers.2.mlp.experts.511.gate_proj.weight
  shared shared_gate 2 - - model.layers.2.mlp.shared_expert_gate.weight
  expert gate 100 511 - mtp.layers.0.mlp.experts.511.gate_proj.weight
  router router 100 - 0 mtp.layers.0.mlp.gate.weight
  trunk mtp - - - mtp.pre_fc_norm_hidden.weight
qwen3.5-moe
  expert gate_up 0 - 0 model.language_model.layers.0.mlp.experts.gate_up_proj
  expert up 0 3 - model.language_model.layers.0.mlp.experts.3.up_proj.weight
  expert down 0 - 0 language_model.model.layers.0.mlp.switch_mlp.down_proj.biases
  expert down 100 - 0 mtp.layers.0.mlp.experts.down_proj
  trunk mtp - - - mtp.fc.weight
  router router 0 - 0 model.language_model.layers.0.mlp.gate.weight
deepseek-v2
  trunk dense_mlp 0 - - model.layers.0.mlp.gate_proj.weight
  expert up 1 159 - model.layers.1.mlp.experts.159.up_proj.weight
  shared down 1 - - model.layers.1.mlp.shared_experts.down_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
deepseek-v3
  expert down 3 255 - model.layers.3.mlp.experts.255.down_proj.weight_scale_inv
  router selection_bias 3 - 0 model.layers.3.mlp.gate.e_score_correction_bias
  router router 3 - 0 model.layers.3.mlp.gate.weight
  trunk attention 3 - - model.layers.3.self_attn.indexer.wq_b.weight
  expert down 100 255 - model.layers.100.mlp.experts.255.down_proj.weight
  trunk mtp 100 - - model.layers.100.eh_proj.weight
  trunk mtp 100 - - model.layers.100.shared_head.head.weight
deepseek-ocr
  expert up 1 63 - model.layers.1.mlp.experts.63.up_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  trunk vision - - - model.qwen2_model.model.model.layers.3.mlp.up_proj.weight
  trunk vision - - - model.vision_model.transformer.layers.3.mlp.fc1.weight
  trunk vision - - - model.view_seperator
bailing-moe-v3
  trunk embedding - - - model.word_embeddings.weight
  trunk attention 2 - - model.layers.2.attention.A_log
  trunk attention 3 - - model.layers.3.attention.kv_b_proj.weight
  expert down 3 255 - model.layers.3.mlp.experts.255.down_proj.weight
  router selection_bias 3 - 0 model.layers.3.mlp.gate.expert_bias
  trunk mtp 100 - - model.layers.100.eh_proj.weight
  trunk norm 100 - - model.layers.100.final_layernorm.weight
deepseek-v4
  expert gate 3 255 - layers.3.ffn.experts.255.w1.scale
  router router 3 - 0 layers.3.ffn.gate.weight
  router selection_bias 3 - 0 layers.3.ffn.gate.bias
  router expert_ids 0 - - layers.0.ffn.gate.tid2eid
  shared down 3 - - layers.3.ffn.shared_experts.w2.weight
  trunk attention 3 - - layers.3.attn.indexer.compressor.ape
  trunk residual 3 - - layers.3.hc_attn_base
  expert up 100 1 - mtp.0.ffn.experts.1.w3.weight
  trunk mtp 100 - - mtp.0.e_proj.weight
kimi-k3
  expert gate 1 895 - language_model.model.layers.1.block_sparse_moe.experts.895.w1.weight_packed
  router router 1 - 0 language_model.model.layers.1.block_sparse_moe.gate.weight
  trunk latent 1 - - language_model.model.layers.1.block_sparse_moe.routed_expert_up_proj.weight
  trunk attention 0 - - language_model.model.layers.0.self_attn.A_log
  trunk residual 0 - - language_model.model.layers.0.mlp_res_proj.weight
  trunk vision - - - vision_tower.patch_embed.proj.weight
kimi-k2.5
  expert up 1 383 - language_model.model.layers.1.mlp.experts.383.up_proj.weight_packed
  expert up 1 383 - language_model.model.layers.1.mlp.experts.383.up_proj.weight_shape
  router selection_bias 1 - 0 language_model.model.layers.1.mlp.gate.e_score_correction_bias
  router router 1 - 0 language_model.model.layers.1.mlp.gate.weight
  trunk head - - - language_model.lm_head.weight
  trunk vision - - - vision_tower.encoder.blocks.0.mlp.fc0.weight
  trunk vision - - - mm_projector.proj.0.weight
glm4-moe
  expert gate 100 159 - model.layers.100.mlp.experts.159.gate_proj.weight
  router selection_bias 3 - 0 model.layers.3.mlp.gate.e_score_correction_bias
  router router 3 - 0 model.layers.3.mlp.gate.weight
  trunk norm 100 - - model.layers.100.enorm.weight
glm4-moe-lite
  expert gate 1 63 - model.layers.1.mlp.experts.63.gate_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  trunk attention 1 - - model.layers.1.self_attn.kv_b_proj.weight
glm5
  expert up 3 255 - model.layers.3.mlp.experts.255.up_proj.weight_scale_2
  router router 3 - 0 model.layers.3.mlp.gate.weight
  trunk attention 3 - - model.layers.3.self_attn.indexer.k_norm.bias
gpt-oss
  expert gate_up 0 - 0 model.layers.0.mlp.experts.gate_up_proj_blocks
  expert gate_up 0 - 0 model.layers.0.mlp.experts.gate_up_proj_scales
  expert down 0 - 0 model.layers.0.mlp.experts.down_proj_bias
  expert gate_up 0 - 0 model.layers.0.mlp.experts.gate_up_proj
  router router 0 - 0 model.layers.0.mlp.router.weight
  router router 0 - 0 model.layers.0.mlp.router.bias
  trunk attention 0 - - model.layers.0.self_attn.sinks
llama4
  expert gate_up 1 - 0 language_model.model.layers.1.feed_forward.experts.gate_up_proj
  expert up 1 15 - language_model.model.layers.1.feed_forward.experts.15.up_proj.weight_scale
  router router 1 - 0 language_model.model.layers.1.feed_forward.router.weight
  shared up 1 - - language_model.model.layers.1.feed_forward.shared_expert.up_proj.weight
  trunk dense_mlp 0 - - language_model.model.layers.0.feed_forward.up_proj.weight
  trunk vision - - - vision_model.model.layers.0.mlp.fc1.weight
olmoe
  expert up 0 63 - model.layers.0.mlp.experts.63.up_proj.weight
  router router 0 - 0 model.layers.0.mlp.gate.weight
minimax-m1
  expert down 0 31 - model.layers.0.block_sparse_moe.experts.31.w2.weight
  router router 0 - 0 model.layers.0.block_sparse_moe.gate.weight
  trunk attention 0 - - model.layers.0.self_attn.output_gate.weight
minimax-m2
  expert up 0 255 - model.layers.0.block_sparse_moe.experts.255.w3.weight
  router selection_bias 0 - 0 model.layers.0.block_sparse_moe.e_score_correction_bias
  router router 0 - 0 model.layers.0.block_sparse_moe.gate.weight
  expert gate_up 0 - 0 model.layers.0.mlp.experts.gate_up_proj
  router selection_bias 0 - 0 model.layers.0.mlp.e_score_correction_bias
  router router 0 - 0 model.layers.0.mlp.gate.weight
cohere2-moe
  expert up 1 127 - model.layers.1.mlp.experts.127.up_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  shared up 1 - - model.layers.1.mlp.shared_experts.up_proj.weight
  trunk dense_mlp 0 - - model.layers.0.mlp.up_proj.weight
qwen4-exp
  router router 0 - 0 model.language_model.layers.0.mlp.gate.weight
  expert gate_up 0 - 0 model.language_model.layers.0.mlp.experts.gate_up_proj
  shared shared_gate 0 - - model.language_model.layers.0.mlp.shared_expert_gate.weight
  trunk residual 0 - - model.language_model.layers.0.attn_hyper_connection.hc_norm.weight
  trunk layer_embedding 1 - - model.layers.1.ple.ple_embedding.ngram_embedding.shard_11.weight
  trunk layer_embedding 1 - - model.layers.1.ple.ple_embedding.layer_multipliers
  trunk residual - - - model.language_model.hyper_connection_mixer.hc_norm.weight
minimax-m3
  expert gate 3 127 - language_model.model.layers.3.block_sparse_moe.experts.127.w1.weight
  router router 3 - 0 language_model.model.layers.3.block_sparse_moe.gate.weight
  shared up 3 - - language_model.model.layers.3.block_sparse_moe.shared_experts.up_proj.weight
  trunk dense_mlp 0 - - language_model.model.layers.0.mlp.up_proj.weight
  trunk vision - - - patch_merge_mlp.0.weight
phimoe
  expert gate 0 15 - model.layers.0.block_sparse_moe.experts.15.w1.weight
  router router 0 - 0 model.layers.0.block_sparse_moe.gate.weight
  trunk norm 0 - - model.layers.0.input_layernorm.bias
  trunk head - - - lm_head.bias
granite-moe
  expert gate_up 0 - 0 model.layers.0.block_sparse_moe.input_linear.weight
  expert down 0 - 0 model.layers.0.block_sparse_moe.output_linear.weight
  router router 0 - 0 model.layers.0.block_sparse_moe.router.layer.weight
  shared gate_up 0 - - model.layers.0.shared_mlp.input_linear.weight
granite-moe-hybrid
  trunk mamba 0 - - model.layers.0.mamba.A_log
  expert gate_up 0 - 0 model.layers.0.block_sparse_moe.input_linear.weight
  router router 0 - 0 model.layers.0.block_sparse_moe.router.layer.weight
dbrx
  expert up 7 - 0 transformer.blocks.7.ffn.experts.mlp.v1
  expert down 7 - 0 transformer.blocks.7.ffn.experts.mlp.w2
  router router 7 - 0 transformer.blocks.7.ffn.router.layer.weight
  trunk attention 7 - - transformer.blocks.7.norm_attn_norm.attn.Wqkv.weight
  trunk embedding - - - transformer.wte.weight
nemotron-h
  expert up 1 127 - backbone.layers.1.mixer.experts.127.up_proj.weight
  router router 1 - 0 backbone.layers.1.mixer.gate.weight
  router selection_bias 1 - 0 backbone.layers.1.mixer.gate.e_score_correction_bias
  shared down 1 - - backbone.layers.1.mixer.shared_experts.down_proj.weight
  trunk latent 1 - - backbone.layers.1.mixer.fc1_latent_proj.weight
  trunk mamba 0 - - backbone.layers.0.mixer.A_log
  trunk attention 5 - - backbone.layers.5.mixer.k_proj.k_scale
  trunk norm - - - backbone.norm_f.weight
  expert down 101 511 - mtp.layers.1.mixer.experts.511.down_proj.weight
  trunk mtp 100 - - mtp.layers.0.enorm.weight
ernie4.5-moe
  expert gate 3 63 - model.layers.3.mlp.experts.63.gate_proj.weight
  router router 3 - 0 model.layers.3.mlp.gate.weight
  router selection_bias 3 - -1 model.layers.3.mlp.moe_statics.e_score_correction_bias
  expert gate_up 3 63 - ernie.layers.3.mlp.experts.63.up_gate_proj.quant_weight
  router router 3 - -1 ernie.layers.3.mlp.gate.weight
  shared gate_up 3 - - ernie.layers.3.mlp.shared_experts.up_gate_proj.weight
  trunk dense_mlp 0 - - ernie.layers.0.mlp.up_gate_proj.weight
gemma4-moe
  expert up 0 127 - model.language_model.layers.0.experts.127.up_proj.weight_packed
  expert gate_up 0 - 0 model.language_model.layers.0.experts.gate_up_proj
  expert up 0 - 0 language_model.model.layers.0.experts.switch_glu.up_proj.weight
  router router 0 - 0 model.language_model.layers.0.router.proj.weight
  router expert_scale 0 - 0 model.language_model.layers.0.router.per_expert_scale
  router router_scale 0 - - model.language_model.layers.0.router.scale
  trunk dense_mlp 0 - - model.language_model.layers.0.mlp.up_proj.weight
  trunk norm 0 - - model.language_model.layers.0.post_feedforward_layernorm_2.weight
  trunk vision - - - model.vision_tower.encoder.layers.0.mlp.up_proj.linear.weight
hunyuan-moe
  expert up 0 63 - model.layers.0.mlp.experts.63.up_proj.weight
  router router 0 - 0 model.layers.0.mlp.gate.wg.weight
  shared up 0 - - model.layers.0.mlp.shared_mlp.up_proj.weight
hy3
  expert down 79 191 - model.layers.79.mlp.experts.191.down_proj.weight
  router router 1 - 0 model.layers.1.mlp.router.gate.weight
  router selection_bias 1 - 0 model.layers.1.mlp.expert_bias
  shared gate 1 - - model.layers.1.mlp.shared_mlp.gate_proj.weight
  trunk norm 100 - - model.layers.100.final_layernorm.weight
  trunk mtp 100 - - model.layers.100.eh_proj.weight
lfm2-moe
  expert gate 2 31 - model.layers.2.feed_forward.experts.31.w1.weight
  router router 2 - 0 model.layers.2.feed_forward.gate.weight
  router selection_bias 2 - 0 model.layers.2.feed_forward.expert_bias
  trunk dense_mlp 0 - - model.layers.0.feed_forward.w1.weight
  trunk attention 0 - - model.layers.0.conv.in_proj.weight
bailing-moe
  expert up 0 63 - model.layers.0.mlp.experts.63.up_proj.weight
  router router 0 - 0 model.layers.0.mlp.gate.weight
  router router 0 - 0 model.model.layers.0.mlp.image_gate.weight
  trunk attention 0 - - model.layers.0.attention.query_key_value.weight
  trunk embedding - - - model.word_embeddings.weight
  trunk vision - - - vision.blocks.0.attn.qkv.weight
bailing-moe-v2
  expert up 1 255 - model.layers.1.mlp.experts.255.up_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  router selection_bias 1 - 0 model.layers.1.mlp.gate.expert_bias
mimo-v2
  expert up 1 255 - model.layers.1.mlp.experts.255.up_proj.weight_scale_inv
  router router 1 - 0 model.layers.1.mlp.gate.weight
  router selection_bias 1 - 0 model.layers.1.mlp.gate.e_score_correction_bias
  trunk dense_mlp 102 - - model.mtp.layers.2.mlp.up_proj.weight
step3
  expert gate 3 - 0 model.layers.3.moe.gate_proj.weight
  router router 3 - 0 model.layers.3.moe.gate.weight
  router selection_bias 3 - 0 model.layers.3.moe.router_bias
  shared up 3 - - model.layers.3.share_expert.up_proj.weight
  trunk mtp 100 - - model.layers.100.transformer.shared_head.output.weight
exaone-moe
  expert up 1 127 - model.layers.1.mlp.experts.127.up_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  shared down 1 - - model.layers.1.mlp.shared_experts.down_proj.weight
solar-open
  expert gate 1 127 - model.layers.1.mlp.experts.127.gate_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
afmoe
  expert down 2 7 - model.layers.2.mlp.experts.7.down_proj.weight
  router router 2 - 0 model.layers.2.mlp.router.gate.weight
  router selection_bias 2 - 0 model.layers.2.mlp.expert_bias
smallthinker
  expert up 0 3 - model.layers.0.block_sparse_moe.experts.3.up.weight
  router router 0 - 0 model.layers.0.block_sparse_moe.primary_router.weight
grovemoe
  expert up 0 3 - model.layers.0.mlp.experts.3.up_proj.weight
  router router 0 - 0 model.layers.0.mlp.gate.weight
  trunk chunk_experts 0 - - model.layers.0.mlp.chunk_experts.1.up_proj.weight
laguna
  expert up 1 255 - model.layers.1.mlp.experts.255.up_proj.weight_scale
  expert gate_up 1 - 0 model.layers.1.mlp.experts.gate_up_proj
  router selection_bias 1 - 0 model.layers.1.mlp.experts.e_score_correction_bias
  router router 1 - 0 model.layers.1.mlp.gate.weight
  shared up 1 - - model.layers.1.mlp.shared_expert.up_proj.weight
mistral4
  expert up 0 - 0 language_model.model.layers.0.mlp.switch_mlp.up_proj.biases
  router router 0 - 0 language_model.model.layers.0.mlp.gate.weight
  shared up 0 - - language_model.model.layers.0.mlp.shared_experts.up_proj.scales
  trunk head - - - language_model.lm_head.biases
dots1
  expert up 1 127 - model.layers.1.mlp.experts.127.up_proj.weight
  router router 1 - 0 model.layers.1.mlp.gate.weight
  router selection_bias 1 - 0 model.layers.1.mlp.gate.e_score_correction_bias
jamba
  expert up 1 15 - model.layers.1.feed_forward.experts.15.up_proj.weight
  router router 1 - 0 model.layers.1.feed_forward.router.weight
  trunk mamba 0 - - model.layers.0.mamba.in_proj.weight
  trunk dense_mlp 0 - - model.layers.0.feed_forward.up_proj.weight
arctic
  expert gate 1 127 - model.layers.1.block_sparse_moe.experts.127.w1.weight
  router router 1 - 0 model.layers.1.block_sparse_moe.gate.weight
  trunk dense_mlp 0 - - model.layers.0.block_sparse_moe.mlp.w1.weight
  trunk dense_mlp 0 - - model.layers.0.residual_mlp.w3.weight
)";

struct Sample {
  std::string part, role;
  std::optional<int> layer, expert, axis;
  std::string name;
};

std::optional<int> Number(const std::string& text) {
  return text == "-" ? std::nullopt : std::optional(std::stoi(text));
}

std::map<std::string, std::vector<Sample>> ReadSamples() {
  std::map<std::string, std::vector<Sample>> samples;
  std::string family;
  for (const std::string& line : Split(kSamples, '\n')) {
    std::istringstream words(line);
    std::string part, role, layer, expert, axis, name;
    if (!line.starts_with(" ")) {
      family = line;
    } else if (words >> part >> role >> layer >> expert >> axis >> name) {
      samples[family].push_back({part, role, Number(layer), Number(expert), Number(axis), name});
    }
  }
  return samples;
}

const Family* FamilyNamed(std::string_view name) {
  for (const Family& family : AllFamilies()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

void ExpectClassified(const Family& family, const Sample& sample) {
  SCOPED_TRACE(Cat(family.name, ": ", sample.name));
  const TensorClass found = FamilyMatcher(family, kLayers).Classify(sample.name);
  ASSERT_NE(found.rule, nullptr);
  EXPECT_EQ(PartName(found.rule->part), sample.part);
  EXPECT_EQ(found.rule->role, sample.role);
  EXPECT_EQ(found.layer, sample.layer);
  EXPECT_EQ(found.expert, sample.expert);
  EXPECT_EQ(found.rule->expert_axis, sample.axis);
  EXPECT_EQ(found.mtp,
            sample.layer.value_or(0) >= static_cast<int>(kLayers) || sample.role == "mtp");
  EXPECT_EQ(found.rule->folded, sample.part == "expert" && family.name == "dbrx");
  EXPECT_EQ(found.rule->holds_expert_ids, sample.role == "expert_ids");
}

TEST(Families, ClassifyTheirSampleTensors) {
  size_t checked = 0;
  for (const auto& [name, samples] : ReadSamples()) {
    const Family* family = FamilyNamed(name);
    ASSERT_NE(family, nullptr) << name;
    for (const Sample& sample : samples) ExpectClassified(*family, sample);
    checked += samples.size();
  }
  EXPECT_EQ(checked, 244u);
}

TEST(Families, AreAllSampledWithAnExpertAndARouter) {
  const std::map<std::string, std::vector<Sample>> samples = ReadSamples();
  for (const Family& family : AllFamilies()) {
    bool expert = false, router = false;
    ASSERT_TRUE(samples.contains(family.name)) << family.name;
    for (const Sample& sample : samples.at(family.name)) {
      expert = expert || sample.part == "expert";
      router = router || (sample.part == "router" && sample.axis);
    }
    EXPECT_TRUE(expert && router) << family.name;
  }
}

TEST(Families, RefuseUnknownTensorsInTheFeedForwardPart) {
  const std::pair<const char*, const char*> foreign[] = {
      {"mixtral", "model.layers.3.block_sparse_moe.experts.7.w4.weight"},
      {"qwen3-moe", "model.layers.3.mlp.experts.7.extra_proj.weight"},
      {"qwen3-moe", "model.layers.3.mlp.gate.quant_weight"},
      {"deepseek-v3", "model.layers.3.mlp.router.weight"},
      {"deepseek-v3", "model.layers.3.mlp.experts.7.up_proj.weight.absmax"},
      {"gpt-oss", "model.layers.0.mlp.experts.gate_up_proj_zeros"},
      {"granite-moe", "model.layers.0.block_sparse_moe.middle_linear.weight"},
      {"dbrx", "transformer.blocks.7.ffn.experts.mlp.w3"},
      {"nemotron-h", "backbone.layers.1.mixer.new_experts.3.up_proj.weight"},
      {"nemotron-h", "backbone.layers.1.mixer.v4x_router.weight"},
      {"gemma4-moe", "model.language_model.layers.0.router.per_expert_bias"},
      {"ernie4.5-moe", "ernie.layers.3.mlp.gate.quant_weight"},
      {"deepseek-v4", "mtp.0.ffn.experts.1.w4.weight"},
      {"llama4", "language_model.model.layers.0.feed_forward.experts.lora_a"},
  };
  for (const auto& [name, tensor] : foreign) {
    const Family* family = FamilyNamed(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_EQ(FamilyMatcher(*family, kLayers).Classify(tensor).rule, nullptr) << tensor;
  }
}

TEST(Families, HaveOnlyValidRows) {
  for (const Family& family : AllFamilies()) {
    for (const TensorRule& rule : family.rules) {
      EXPECT_EQ(RuleProblem(rule), "") << family.name << ": " << rule.pattern;
      EXPECT_FALSE(rule.role.empty()) << family.name << ": " << rule.pattern;
    }
  }
}

TEST(Families, DoNotShareNamesOrArchitectures) {
  std::set<std::string> names, architectures, types;
  for (const Family& family : AllFamilies()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.architectures.empty()) << family.name;
    for (const std::string& name : family.architectures) {
      EXPECT_TRUE(architectures.insert(name).second) << name;
    }
    for (const std::string& name : family.model_types) {
      EXPECT_TRUE(types.insert(name).second) << name;
    }
  }
}

}  // namespace
}  // namespace moepack
