// Phi-3.5-MoE, Phi-mini-MoE and Phi-tiny-MoE: Mixtral's names; norms and lm_head carry a bias.
// Names: the index of Phi-tiny-MoE.
#include <cmath>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::phimoe {
namespace {

constexpr const char* kGraph = "phimoe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  family.promise = {.complete = true, .norm_biases = true};
  return family;
}

constexpr float kAddedScore = -1000;  // score of added tokens, as in llama.cpp's converter

// The length of texts the model was trained on before its context was extended.
Result<uint32_t> OriginalLength(const HfConfig& config, const HfConfig& rope, uint32_t length) {
  SHARD_TRY(std::optional<uint32_t> original, rope.FindU32(fields::kOriginalContext));
  if (!original) {
    SHARD_TRY(original, config.FindU32(fields::kOriginalContext));
  }
  if (original == 0u) {
    return Error{Code::kCorrupt, Cat(config.where(), ": original_max_position_embeddings: ",
                                     "expected a length over 0, found 0")};
  }
  return original.value_or(length);
}

// How much attention is scaled for an extended context (the LongRoPE paper, arXiv 2402.13753).
float AttentionFactor(uint32_t length, uint32_t original) {
  const double scale = double{1.0} * length / original;
  if (scale <= 1 || original == 1) return 1;
  return static_cast<float>(std::sqrt(1 + std::log(scale) / std::log(double{1.0} * original)));
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const uint32_t length, config.U32(fields::kContext));
  SHARD_TRY(const uint32_t original, OriginalLength(config, rope, length));
  keys.U32("rope.scaling.original_context_length", original);
  SHARD_TRY(const float rotary, rope.F32(fields::kRotatedPart));
  if (!(rotary > 0 && rotary <= 1)) {
    return rope.Wrong(*rope.Find(fields::kRotatedPart), "a number over 0 and up to 1");
  }
  keys.U32("rope.dimension_count",
           static_cast<uint32_t>(double{rotary} * shape.hidden) / shape.heads);
  if (rope.Has(fields::kLongFactors)) {
    keys.F32("rope.scaling.attn_factor", AttentionFactor(length, original));
  }
  SHARD_TRY(const std::optional<uint32_t> window, config.FindU32(fields::kWindow));
  keys.U32("attention.sliding_window", window.value_or(0));
  return Ok();
}

// SentencePiece, but tokenizer.json may have added tokens that nothing else names.
Result<Vocabulary> ReadVocabulary(const VocabularyRequest& request) {
  SHARD_TRY(Vocabulary vocabulary, ReadSentencePieceOrBpe(request));
  if (vocabulary.scores.empty()) return vocabulary;
  for (const AddedToken& token : request.files.added()) {
    SHARD_CHECK(SetAddedToken(request.files.PathOf("tokenizer.json"), token, vocabulary));
    vocabulary.scores[token.id] = kAddedScore;
  }
  return vocabulary;
}

void AddRows(HfFamily& family) {
  const auto add = [&](const std::string& source, const std::string& target) {
    // The runtime requires the biases, too.
    for (const char* leaf : {".weight", ".bias"}) {
      family.rows.push_back({source + leaf, target + leaf});
    }
  };
  const std::string from = "layers.{L}.", to = "blk.{L}.";
  family.rows.push_back({"embed_tokens.weight", "token_embd.weight"});
  add("norm", "output_norm");
  add("lm_head", "output");
  add(from + "input_layernorm", to + "attn_norm");
  add(from + "post_attention_layernorm", to + "ffn_norm");
  add(from + "self_attn.o_proj", to + "attn_output");
  for (const char* name : {"q", "k", "v"}) {
    family.rows.push_back(
        {Cat(from, "self_attn.", name, "_proj.{W}"), Cat(to, "attn_", name, ".{W}")});
  }
  family.rows.push_back({from + "block_sparse_moe.gate.weight", to + "ffn_gate_inp.weight"});
  AddExpertRows(family, "layers.{L}.block_sparse_moe.experts.", {"w1", "w3", "w2"});
}

// Phi-3.5-MoE: Mixtral's expert names, biases everywhere, and rope factors for short and long texts
// as tensors. The runtime uses RMS norms although the model was trained with LayerNorm, and routes
// by softmax instead of the model's sparse mixer; a GGUF cannot express that.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.rope.longrope = true;
  family.needs_output = true;
  family.keys = AddKeys;
  family.vocabulary = ReadVocabulary;
  AddRows(family);
  SHARD_TRY(GgufModel gguf, ConvertHf(model, family, options));
  gguf.warnings.push_back(
      Cat(model.config_path().string(),
          ": the runtime's phimoe differs from this model: its norms do not subtract the mean, and "
          "it weighs experts by softmax instead of SparseMixer"));
  return gguf;
}

// As llama.cpp runs it: RMS norms with bias, and softmax over all experts (the model's own code has
// LayerNorm and its "sparsemixer" router). Forward::TurnsOf chooses the factor tensors.

constexpr std::string_view kArchitectures[] = {"PhiMoEForCausalLM", "PhimoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"phimoe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' PhimoeConfig
    {R"({"rms_norm_eps": 1e-5, "rope_theta": 1e6, "partial_rotary_factor": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    // As llama.cpp runs it: RMS norms with bias, and softmax over all experts (the model's own code
    // has
    // LayerNorm and its "sparsemixer" router). Forward::TurnsOf chooses the factor tensors.
    {kGraph, "Phi-3.5-MoE"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"phimoe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::phimoe
