// Ling (BailingMoE) and the Ling inside Ming-omni ("model.model."): attention.query_key_value,
// word_embeddings. Ming has one router per modality (mlp.image_gate, mlp.audio_gate) over the same
// experts. Names: llama.cpp's tensor map, published readers of Ming; configs only here.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::bailing_moe {
namespace {

constexpr const char* kGraph = "bailingmoe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = {"model.", "model.model."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddBailingRows(family);
  AddTowers(family);
  AddTrunk(family, "vision", {"linear_proj.{**}"});
  AddTrunk(family, "audio", {"linear_proj_audio.{**}"});
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  keys.U32("rope.dimension_count", shape.head_size);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  return Ok();
}

// Whether the columns of the head are divided by their lengths.
Result<bool> HasNormHead(const HfConfig& config) {
  SHARD_TRY(const std::optional<bool> norm, config.FindBool({"norm_head"}));
  return norm.value_or(false);
}

// A head that is also the embedding would have to be two different matrices.
Status Check(const HfConfig& config, const HfShape&, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const bool norm, HasNormHead(config));
  const auto head = std::find_if(tensors.begin(), tensors.end(), [](const GgufTensor& tensor) {
    return tensor.name == "output.weight";
  });
  if (!norm || head == tensors.end() || head->source_tensor.ends_with("lm_head.weight"))
    return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": norm_head: expected false without a tensor lm_head.weight, ",
                   "found true"),
               kNoGgufHint};
}

Status CheckArchitecture(const MoeModel& model) {
  if (model.config().architecture != "BailingMMNativeForConditionalGeneration") return Ok();
  return Error{
      Code::kUnsupported,
      Cat(model.config_path().string(), ": architectures: expected BailingMoeForCausalLM, found ",
          "\"BailingMMNativeForConditionalGeneration\", which has a router for each "
          "modality"),
      kNoGgufHint};
}

// Ling and Ring (BailingMoE): one projection for queries, keys and values, which llama.cpp's rope
// needs separated and permuted; softmax scores and shared experts. The columns of the head may have
// to be divided by their lengths (norm_head).
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_CHECK(CheckArchitecture(model));
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const bool norm_head, HasNormHead(config));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "bailingmoe";
  family.needs_output = true;
  family.keys = AddKeys;
  family.check = Check;
  const auto add = [&](const std::string& source, const std::string& target,
                       RowOrder order = RowOrder::kAsIs) {
    family.rows.push_back({source + ".weight", target + ".weight", order});
  };
  add("word_embeddings", "token_embd");
  add("norm", "output_norm");
  add("lm_head", "output");
  if (norm_head) family.rows.back().rule = ValueRule::kUnitColumns;
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  add(at + "input_layernorm", to + "attn_norm");
  add(at + "attention.query_key_value", to + "attn_q", RowOrder::kJoinedQuery);
  add(at + "attention.query_key_value", to + "attn_k", RowOrder::kJoinedKey);
  add(at + "attention.query_key_value", to + "attn_v", RowOrder::kJoinedValue);
  add(at + "attention.dense", to + "attn_output");
  add(at + "post_attention_layernorm", to + "ffn_norm");
  add(at + "mlp.gate", to + "ffn_gate_inp");
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  for (const char* part : {"gate", "up", "down"}) {
    add(Cat(at, "mlp.shared_experts.", part, "_proj"), Cat(to, "ffn_", part, "_shexp"));
  }
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys&, ModelSpec& spec) { spec.rope.pairing = Pairing::kNeighbours; }

constexpr std::string_view kArchitectures[] = {"BailingMoeForCausalLM",
                                               "BailingMMNativeForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"bailing_moe", "bailingmm"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_bailing_moe.py of Ling-lite
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "first_k_dense_replace": 0})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_weights = true,
                  .writes_false_norm = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Ling", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"bailing-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::bailing_moe
