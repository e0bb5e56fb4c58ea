// ModelSpec describes a transformer in numbers, which are read from GGUF metadata. One file per
// family fills it in (families/), and forward.cc runs it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/graph/shapes.h"
#include "libshard/model/routing.h"

namespace moepack {

// Reads an architecture's keys from GGUF metadata. The first that is missing or wrong is kept as
// the error.

class SpecKeys {
 public:
  // Borrows both arguments; `path` names the file in errors.
  SpecKeys(const std::string& path, const GgufMetadata& metadata)
      : path_(path), metadata_(metadata), architecture_(metadata.Architecture()) {}

  const std::string& architecture() const { return architecture_; }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Keys are given without "<architecture>.". A missing required key is an error, and so is any key
  // with the wrong type or a value that makes no sense (over 2^24, not finite).
  uint32_t Required(std::string_view key);
  uint32_t Uint(std::string_view key, uint32_t otherwise);
  float Float(std::string_view key, float otherwise);
  float RequiredFloat(std::string_view key);
  bool Bool(std::string_view key, bool otherwise);
  std::string String(std::string_view key, const std::string& otherwise);
  // Reads one value for each of `count` layers, from a list of at least that many or from one
  // number for all.
  std::vector<uint32_t> PerLayer(std::string_view key, uint32_t count, uint32_t otherwise);

  // Reads a list of at least `count` finite numbers; empty if the key is absent.
  std::vector<float> Floats(std::string_view key, uint32_t count);
  // Reads a list of at least `count` numbers of up to 64 bits, which must exist.
  std::vector<uint64_t> Uints(std::string_view key, uint32_t count);
  // Reads a list of at least `count` bools, or of numbers; empty if the key is absent.
  std::vector<bool> Flags(std::string_view key, uint32_t count);

  void Refuse(std::string_view key, const std::string& expected, const std::string& found);
  // Sets kUnsupported for a model that is well-formed but cannot run here.
  void Decline(const std::string& what);
  // The first error.
  Status status() const;

 private:
  const GgufValue* Find(std::string_view key) const;
  uint32_t Checked(std::string_view key, const GgufValue& value);
  float CheckedFloat(std::string_view key, const GgufValue& value);

  const std::string& path_;
  const GgufMetadata& metadata_;
  std::string architecture_;
  std::optional<Error> error_;
};

// Rotary embedding: frequencies and how they are stretched. Sources: RoFormer (arXiv 2104.09864),
// YaRN (arXiv 2309.00071), and for details llama.cpp's ggml_rope_yarn.
struct RopeSpec {
  Pairing pairing = Pairing::kHalves;
  uint32_t dims = 0;
  float base = 10000;
  float frequency_scale = 1;   // 1 / factor
  float yarn_mix = 0;          // 1: YaRN, 0: plain or linear
  float attention_factor = 1;  // multiplies cosine and sine
  uint32_t original_context = 0;
  float beta_fast = 32, beta_slow = 1;
};

struct LayerSpec {
  uint32_t heads = 0, key_heads = 0;
  uint32_t key_width = 0, value_width = 0;  // of one head
  bool rope = true;
  bool local_rope = false;     // ModelSpec::local_rope instead of the model's usual one
  bool recurrent = false;      // ModelSpec::recurrence instead of attention
  bool picks_blocks = false;   // attention sees the blocks that ModelSpec::blocks picks
  bool embeds_ngrams = false;  // ModelSpec::ngrams; the layer is recurrent
  // With ModelSpec::indexer: the layer has one; otherwise it uses what the last such layer picked.
  bool own_indexer = false;
  uint32_t ratio = 0;  // with ModelSpec::compressed: tokens of a compressed key; 0: none
  // A table names the experts of each token id (DeepSeek-V4); the router only weighs them.
  bool routes_by_table = false;
  // False in models whose layers are only one thing each: no attention (or recurrence) before the
  // MLP, or no MLP or experts after it.
  bool mixes = true, feeds = true;
  uint32_t window = 0, chunk = 0;  // AttentionShape
  // Limits of ModelSpec::limited for dense and shared MLPs and for experts; 0: none.
  float mlp_limit = 0, expert_limit = 0;
  // The router of MoE layers. The tensors show which layers these are, and their experts.
  Routing router;
};

struct ModelSpec {
  std::string architecture;
  uint32_t layers = 0;  // without blocks for multi-token prediction
  uint32_t width = 0, context = 0;
  uint32_t heads = 0, key_heads = 0;        // of the layer that has the most
  uint32_t key_width = 0, value_width = 0;  // of layers that state nothing else
  float norm_eps = 0;
  RopeSpec rope;
  RopeSpec local_rope;  // of layers with a window (MiMo-V2, Step-3.5, Gemma-4)
  const RopeSpec& RopeOf(uint32_t number) const {
    return layer[number].local_rope ? local_rope : rope;
  }

  // Multi-head latent attention (DeepSeek-V2): 0 if the model has none.
  struct Latent {
    uint32_t rank = 0;        // kv_lora_rank
    uint32_t nope_width = 0;  // of a query head, without rotation
    uint32_t value_width = 0;
    bool operator==(const Latent&) const = default;
  } latent;
  // The tensors of an indexer exist but are not needed (DeepSeek-V3.2 in short contexts).
  bool unused_indexer = false;
  IndexerShape indexer;  // no heads: attention sees all positions
  bool is_latent() const { return latent.rank > 0; }
  // Attention's values are columns of its keys.
  bool values_in_keys() const { return is_latent() || compressed.groups > 0; }

  // Recurrent layers have one of these: Qwen3-Next and Qwen3.5, Nemotron-H and Granite 4, Ling 3.0,
  // LFM2.
  DeltaShape delta;
  MambaShape mamba;
  KdaShape kda;
  ConvolutionShape convolution;
  BlockShape blocks;  // MiniMax-M3, Qwen4-Exp
  CompressedShape compressed;
  StreamShape streams;
  NgramShape ngrams;
  // Of all the streams that a block adds to.
  uint32_t hidden_width() const { return std::max(streams.count, 1u) * width; }
  // The compressors of a layer with a ratio, of attention's keys and of the indexer's.
  CompressorShape CompressorOf(uint32_t number) const {
    return {layer[number].ratio, layer[number].key_width, layer[number].own_indexer};
  }
  CompressorShape IndexCompressorOf(uint32_t number) const {
    return {layer[number].own_indexer ? layer[number].ratio : 0, indexer.width, true};
  }
  RecurrentShape recurrence() const {
    if (convolution.kernel > 0) return convolution.state();
    if (kda.heads > 0) return kda.state();
    return mamba.heads > 0 ? mamba.state() : delta.state();
  }

  float attention_scale = 0;
  float value_scale = 1;       // multiplies attention's output (MiMo-V2)
  bool gated_queries = false;  // each head's queries are followed by a gate (Qwen3-Next, Qwen3.5)
  // A tensor attn_gate has one row per head or per value, whose softplus multiplies attention's
  // result (Laguna); without this it has one row per head, and its sigmoid does (Step-3.5).
  bool softplus_gates = false;
  bool norm_heads_after_rope = false;  // Llama-4: unweighted, in layers with rotation
  bool norm_after_rope = false;        // Hunyuan: weighted, after the rotation
  bool norm_whole_projection = false;  // MiniMax-M2, OLMoE: one norm over all heads
  bool norm_values = false;            // Gemma-4: unweighted; keys may also be used as values
  // AFMoE, Kimi-K3: the sigmoid of a gate as wide as attention's results multiplies them.
  bool gated_attention = false;
  // AFMoE: attention's output and that of the MLP or experts are normed before they are added.
  bool norms_after = false;
  // SmallThinker: a layer's router reads what the layer starts from, without a norm.
  bool routes_early = false;
  // GroveMoE: after the experts, each chosen one adds its chunk expert, which is that of `experts`
  // experts; 0: there are none.
  struct Chunks {
    uint32_t experts = 0;
    float scale = 0;
  } chunks;
  // Gemma-4: each layer has an MLP beside the experts, and norms before and after both.
  bool parallel_experts = false;
  // Command: MLP and experts start from the rows that attention starts from, without a norm of
  // their own.
  bool one_norm = false;
  // Attention temperature (Llama-4): queries of layers without rotation are scaled by
  // 1 + temperature * ln(1 + floor((position + 1) / temperature_floor)).
  float temperature = 0;
  uint32_t temperature_floor = 0;

  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float experts_scale = 1;  // multiplies the sum of experts and shared experts (Command)
  float ScaleOfExperts() const { return residual_scale * experts_scale; }
  float logit_cap = 0;                        // logits become cap * tanh(logit / cap); 0: unchanged
  Activation activation = Activation::kSilu;  // for dense and shared MLPs
  Activation expert_activation = Activation::kSilu;  // for routed experts
  // What they are in layers with limits.
  Activation::Kind limited = Activation::kLimitedSilu;
  Activation MlpActivationOf(uint32_t number) const {
    const float limit = layer[number].mlp_limit;
    return limit > 0 ? Activation(limited, limit) : activation;
  }
  Activation ExpertActivationOf(uint32_t number) const {
    const float limit = layer[number].expert_limit;
    return limit > 0 ? Activation(limited, limit) : expert_activation;
  }
  bool weigh_inputs = false;              // Llama-4: the gate multiplies the expert's input
  const char* second_norm = "ffn_norm";   // the tensor before the MLP
  const char* last_norm = "output_norm";  // the tensor before the head
  bool gated_mlps = true;                 // MLPs and experts have a gate beside `up`
  uint32_t expert_space = 0;  // experts work on this many values, between two projections; 0: width
  uint32_t expert_width() const { return expert_space > 0 ? expert_space : width; }
  // Those are `<name>_down` and `<name>_up`; before the second there may be a norm, `<name>_norm`.
  const char* space_tensors = "ffn_latent";
  // Residual attention (Kimi-K3): every residual_block-th layer keeps the stream that it starts
  // from, and a new one starts with attention's output. The norms before attention, MLP and head
  // see a mix of the kept streams and the current one (executor/residual_mix.h), if any are kept.
  uint32_t residual_block = 0;
  bool KeepsStream(uint32_t number) const {
    return residual_block > 0 && number % residual_block == 0;
  }
  // The kept streams that attention of this layer sees; with number + 1, those of its MLP.
  uint32_t KeptBefore(uint32_t number) const {
    return residual_block == 0 ? 0 : (number + residual_block - 1) / residual_block;
  }
  // Of a row that runs through the layers: the streams, and all that is kept.
  uint64_t stream_width() const { return hidden_width() + uint64_t{width} * KeptBefore(layers); }

  std::vector<LayerSpec> layer;
};

// A family that runs: one row in families/all.cc.
struct RuntimeFamily {
  const char* architecture;  // general.architecture
  const char* models;        // "Mixtral"
  // Everything peculiar to the family; the common keys and the routing have been read already.
  // Reports problems to `keys`. Null if there is nothing peculiar.
  void (*fill)(SpecKeys& keys, ModelSpec& spec) = nullptr;
  // Layers without key heads are not attention layers (LayerSpec::mixes); `fill` sorts that out.
  bool layers_without_heads = false;
};
std::span<const RuntimeFamily> AllRuntimeFamilies();
// Null for an architecture that does not run here.
const RuntimeFamily* FindRuntimeFamily(std::string_view architecture);

// kUnsupported, with the supported ones, for an architecture that does not run here.
Result<const RuntimeFamily*> RuntimeFamilyOf(const std::string& path, const GgufMetadata& metadata);

// kUnsupported, with the supported ones, for an architecture that does not run here, and for a
// gating function or a key about experts that we do not know; kCorrupt for keys that are missing or
// make no sense. `path` names the file in errors.
Result<ModelSpec> ReadModelSpec(const std::string& path, const GgufMetadata& metadata);

}  // namespace moepack
