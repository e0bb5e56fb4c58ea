// gpt-oss: packed MXFP4 experts, gate_up_proj_{blocks,scales,bias} with gate and up rows
// interleaved, and a router with a bias; softmax over the chosen experts only. MLX splits them
// (experts.gate_proj). Tools that quantize linear layers make one of each expert
// (experts.gate_up_projs.E). Names: the index of gpt-oss-20b; unsloth's checkpoints.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"

namespace moepack::gpt_oss {
namespace {

constexpr const char* kGraph = "gpt-oss";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {
      .gating = Gating::kSoftmaxAfterTopK, .normalize = false, .bias = RouterBias::kLogits};
  family.facts = {.all_moe = true, .plain_width = true, .transposed = true, .interleaved = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.router");
  AddExperts(family, "layers.{L}.mlp.");
  for (const auto& [module, role] :
       {std::pair("gate_up_projs", "gate_up"), std::pair("down_projs", "down")}) {
    family.rules.push_back({.pattern = Cat("layers.{L}.mlp.experts.", module, ".{E}.{W}"),
                            .part = Part::kExpert,
                            .role = role});
  }
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true,
                    .expert_biases = true,
                    .attention_biases = {fields::kAttentionBias, true},
                    .attention_sinks = true};
  return family;
}

// The runtime derives head sizes if rope.dimension_count is absent, so that key is not written.
Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  SHARD_CHECK(AddWindowKey(config, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

void AddBlock(HfFamily& family) {
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({"layers.{L}." + source, "blk.{L}." + target});
  };
  add("input_layernorm.weight", "attn_norm.weight");
  add("post_attention_layernorm.weight", "post_attention_norm.weight");
  add("self_attn.sinks", "attn_sinks.weight");
  // The runtime refuses files that lack any of these biases.
  for (const char* leaf : {".weight", ".bias"}) {
    for (const char* part : {"q", "k", "v"}) {
      add(Cat("self_attn.", part, "_proj", leaf), Cat("attn_", part, leaf));
    }
    add(Cat("self_attn.o_proj", leaf), Cat("attn_output", leaf));
    add(Cat("mlp.router", leaf), Cat("ffn_gate_inp", leaf));
  }
}

// How a checkpoint stores its experts.
enum class Experts : uint8_t {
  kRows,      // of packed experts, in blocks
  kColumns,   // of packed experts in floating point
  kOneByOne,  // a linear layer for each
};

Experts FormOf(const MoeModel& model) {
  Experts form = Experts::kColumns;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.expert) return Experts::kOneByOne;
    if (tensor.leaf == "blocks") form = Experts::kRows;
  }
  return form;
}

void AddExperts(HfFamily& family, Experts form) {
  const bool single = form == Experts::kOneByOne, columns = form == Experts::kColumns;
  const std::string at = "layers.{L}.mlp.experts.";
  const std::string gate_up = at + (single ? "gate_up_projs.{E}" : "gate_up_proj");
  const std::string down = at + (single ? "down_projs.{E}" : "down_proj");
  const std::string weight = single ? ".weight" : "", bias = single ? ".bias" : "_bias";
  const auto add = [&](const std::string& source, const char* target, RowOrder order,
                       ValueRule rule) {
    family.rows.push_back({.source = source,
                           .target = Cat("blk.{L}.ffn_", target),
                           .order = columns ? RowOrder::kAsIs : order,
                           .rule = columns ? rule : ValueRule::kNone});
  };
  add(gate_up + weight, "gate_exps.weight", RowOrder::kEvenRows, ValueRule::kTransposeEven);
  add(gate_up + weight, "up_exps.weight", RowOrder::kOddRows, ValueRule::kTransposeOdd);
  add(down + weight, "down_exps.weight", RowOrder::kAsIs, ValueRule::kTranspose);
  const auto add_bias = [&](const std::string& source, const char* target, RowOrder order) {
    family.rows.push_back(
        {.source = source + bias, .target = Cat("blk.{L}.ffn_", target), .order = order});
  };
  add_bias(gate_up, "gate_exps.bias", RowOrder::kEvenRows);
  add_bias(gate_up, "up_exps.bias", RowOrder::kOddRows);
  add_bias(down, "down_exps.bias", RowOrder::kAsIs);
}

// gpt-oss: packed experts in MXFP4 with gate and up in alternating rows, biases everywhere, a
// learned sink per head. Models fine-tuned in BF16 store the experts transposed; those whose
// experts are linear layers do not.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "gpt-4o";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddBlock(family);
  AddExperts(family, FormOf(model));
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.second_norm = "post_attention_norm";
  spec.expert_activation = Activation::kClampedSilu;
  const uint32_t window = keys.Required("attention.sliding_window");
  const auto usual = static_cast<uint32_t>(FindArchitecture(keys.architecture())->window->period);
  const std::vector<uint32_t> pattern =
      keys.PerLayer("attention.sliding_window_pattern", spec.layers, usual);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const uint32_t period = pattern[layer];
    // A period n: n - 1 layers with the window, then one without.
    if (period > 0 && layer % period < period - 1) spec.layer[layer].window = window;
  }
}

constexpr std::string_view kArchitectures[] = {"GptOssForCausalLM"};
constexpr std::string_view kModelTypes[] = {"gpt_oss"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' GptOssConfig
    {R"({"head_dim": 64, "sliding_window": 128, "rms_norm_eps": 1e-5, "rope_theta": 150000,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "original_max_position_embeddings": 4096}})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSoftmaxAfterTopK, .normalize = false}},
     .window = {{.period = 2, .tokens = 128, .reads_key = true}},
     .cards = CardConvention::kWithoutEmbedding},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "gpt-oss", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"gpt-oss", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::gpt_oss
