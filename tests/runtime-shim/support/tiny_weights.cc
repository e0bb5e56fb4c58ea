#include "tests/runtime-shim/support/tiny_weights.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tests/runtime-shim/support/tiny_keys.h"

namespace moepack::runtime {
namespace tiny {
namespace {

using Memory = std::vector<float>;

// A small generator for these tests, so that the numbers are the same on every machine.
class Numbers {
 public:
  // Evenly spread in (-1, 1).
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) / 2147483648.0f;
  }

 private:
  uint64_t state_ = 42;
};

class Builder {
 public:
  explicit Builder(const std::string& architecture)
      : architecture_(architecture), weights_(std::make_shared<Weights>()) {
    weights_->path = "tiny";
    weights_->metadata.Set("general.architecture", GgufValue::String(architecture));
    latent_ = IsLatent(architecture);
    hybrid_ = IsHybrid(architecture);
    gated_ = IsGated(architecture);
    kda_ = HasKda(architecture);
  }

  std::shared_ptr<Weights> Build() {
    Keys(architecture_, weights_->metadata).Write();
    Trunk("token_embd.weight", {kVocabulary, kWidth}, 1);
    Trunk("output.weight", {kVocabulary, kWidth}, 1);
    if (gated_) {
      GatedStreams("output_hc_");
      Trunk("per_layer_token_embd.weight", {4 * kTableRows, kTableWidth}, 1);
    } else {
      Norm(Is("lfm2moe") ? "token_embd_norm" : "output_norm", kWidth);
    }
    if (Is("kimi-k3")) Trunk("output_res_score.weight", {kWidth}, 1);
    if (Is("phimoe")) Trunk("output.bias", {kVocabulary}, 0.1f);
    if (Is("deepseek4")) Streams("output_hc_", kStreams, 1);
    set_.label = "model";
    if (Is("nemotron_h_moe")) {
      SingleLayers();
      return weights_;
    }
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      if (gated_) {
        GatedStreams(prefix_ + "hc_attn_");
        GatedStreams(prefix_ + "hc_ffn_");
      } else {
        Norm("attn_norm", kWidth);
      }
      // The second layer of the hybrids has attention.
      const bool mixed = hybrid_ || Is("granitehybrid") || Is("lfm2moe") || kda_;
      if (mixed && layer == 0)
        Recurrence();
      else
        Attention();
      const bool post = Is("glm4moe") || Is("gpt-oss") || hybrid_;
      if (!Is("cohere2moe") && !gated_) Norm(post ? "post_attention_norm" : "ffn_norm", kWidth);
      if (Is("kimi-k3")) Scores();
      Experts(layer);
    }
    weights_->sets.push_back(std::move(set_));
    return weights_;
  }

 private:
  bool Is(const char* name) const { return architecture_ == name; }

  void Attention() {
    if (Is("deepseek4")) return Compressed();
    latent_ ? Latent() : Heads();
  }

  void Recurrence() {
    if (Is("granitehybrid")) return Mamba();
    if (kda_) return Kda();
    hybrid_ ? Delta() : Convolution();
    if (gated_) Ngrams();
  }

  // The streams' norms and gates; the head of the model injects nothing.
  void GatedStreams(const std::string& prefix) {
    constexpr uint64_t kAll = kStreams * kWidth;
    Trunk(prefix + "norm.weight", {kAll}, 0.2f, 1);
    Trunk(prefix + "down.weight", {kRank, kAll}, 0.4f);
    Trunk(prefix + "up.weight", {kAll, kRank}, 0.4f);
    if (prefix != "output_hc_") Trunk(prefix + "inject.weight", {kStreams, kAll}, 0.4f);
  }

  void Ngrams() {
    constexpr uint64_t kAll = kStreams * kWidth, kEmbedded = 4 * kTableWidth;
    Own("ple_key.weight", {kAll, kEmbedded});
    Own("ple_value.weight", {kWidth, kEmbedded});
    for (const char* part : {"key", "query", "conv"}) Norm(std::string("ple_norm_") + part, kAll);
    Own("ple_conv1d.weight", {kAll, 2});
  }

  void Convolution() {
    Own("shortconv.conv.weight", {kWidth, 3});
    Own("shortconv.in_proj.weight", {3 * kWidth, kWidth});
    Own("shortconv.out_proj.weight", {kWidth, kWidth});
  }

  // Two layers of experts, then one of Mamba and one of attention.
  void SingleLayers() {
    for (uint32_t layer = 0; layer < 2 * kLayers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      Norm("attn_norm", kWidth);
      if (layer < kLayers) Experts(layer);
      if (layer == kLayers) Mamba();
      if (layer == kLayers + 1) Heads();
    }
    weights_->sets.push_back(std::move(set_));
  }

  void Mamba() {
    const uint64_t inner = kHeads * kHeadWidth, channels = inner + 2 * kKeyHeads * kDeltaWidth;
    Own("ssm_in.weight", {inner + channels + kHeads, kWidth});
    Own("ssm_conv1d.weight", {channels, 4});
    Own("ssm_conv1d.bias", {channels});
    Own("ssm_dt.bias", {kHeads});
    Trunk(prefix_ + "ssm_a", {kHeads, 1}, 0.2f, -0.5f);
    Own("ssm_d", {kHeads, 1});
    Trunk(prefix_ + "ssm_norm.weight", {kKeyHeads, inner / kKeyHeads}, 0.2f, 1);
    Own("ssm_out.weight", {kWidth, inner});
  }

  void GemmaHeads(uint64_t heads, uint64_t width) {
    Own("attn_q.weight", {kHeads * width, kWidth});
    Own("attn_k.weight", {heads * width, kWidth});
    if (heads == kKeyHeads) Own("attn_v.weight", {heads * width, kWidth});
    Own("attn_output.weight", {kWidth, kHeads * width});
    for (const char* name : {"attn_q_norm", "attn_k_norm"}) Norm(name, width);
    for (const char* name : {"post_attention_norm", "post_ffw_norm_1", "pre_ffw_norm_2",
                             "post_ffw_norm_2", "post_ffw_norm"})
      Norm(name, kWidth);
    Trunk(prefix_ + "ffn_gate_inp.scale", {kWidth}, 0.2f, 1);
    Trunk(prefix_ + "layer_output_scale.weight", {1}, 0.2f, 1);
    Own("ffn_gate.weight", {kInner, kWidth});
    Own("ffn_up.weight", {kInner, kWidth});
    Own("ffn_down.weight", {kWidth, kInner});
  }

  HostTensor Make(const std::string& name, std::vector<uint64_t> shape, float size, float mean) {
    uint64_t count = 1;
    for (const uint64_t length : shape) count *= length;
    auto memory = std::make_shared<Memory>(count);
    for (float& value : *memory) value = mean + size * numbers_.Next();
    HostTensor tensor{name, quant::FindFormat("f32"), std::move(shape),
                      std::as_bytes(std::span(*memory))};
    weights_->memory.push_back(std::move(memory));
    return tensor;
  }

  void Trunk(const std::string& name, std::vector<uint64_t> shape, float size, float mean = 0) {
    weights_->trunk.push_back(Make(name, std::move(shape), size, mean));
  }

  void Own(const std::string& name, std::vector<uint64_t> shape) {
    Trunk(prefix_ + name, std::move(shape), 0.4f);
  }

  void Norm(const std::string& name, uint64_t width) {
    const bool whole = name == "output_norm" || name == "token_embd_norm";
    Trunk((whole ? "" : prefix_) + name + ".weight", {width}, 0.2f, 1);
    if (Is("phimoe")) Trunk((whole ? "" : prefix_) + name + ".bias", {width}, 0.1f);
  }

  void Heads() {
    const bool first = prefix_ == "blk.0.";
    if (Is("gemma4")) return GemmaHeads(first ? kKeyHeads : 1, first ? kHeadWidth : 2 * kHeadWidth);
    const bool windowed = (Is("mimo2") || Is("step35")) && prefix_ == "blk.1.";
    const uint64_t keys = windowed ? 1 : kKeyHeads, value = Is("mimo2") ? kValueWidth : kHeadWidth;
    if (Is("bailingmoe2")) {
      Own("attn_qkv.weight", {(kHeads + 2 * kKeyHeads) * kHeadWidth, kWidth});
    } else {
      Own("attn_q.weight", {(hybrid_ ? 2 : 1) * kHeads * kHeadWidth, kWidth});
      Own("attn_k.weight", {keys * kHeadWidth, kWidth});
      Own("attn_v.weight", {keys * value, kWidth});
    }
    Own("attn_output.weight", {kWidth, kHeads * value});
    if (Is("qwen2moe") || Is("gpt-oss") || Is("phimoe")) {
      Own("attn_q.bias", {kHeads * kHeadWidth});
      Own("attn_k.bias", {kKeyHeads * kHeadWidth});
      Own("attn_v.bias", {kKeyHeads * kHeadWidth});
    }
    if (Is("gpt-oss") || (Is("mimo2") && windowed)) Own("attn_sinks.weight", {kHeads});
    if (Is("step35")) Own("attn_gate.weight", {kHeads, kWidth});
    if (Is("afmoe")) {
      Own("attn_gate.weight", {kHeads * kHeadWidth, kWidth});
      Norm("post_attention_norm", kWidth);
      Norm("post_ffw_norm", kWidth);
    }
    // A gate per head, then one per value.
    if (Is("laguna")) Own("attn_gate.weight", {kHeads * (first ? 1 : kHeadWidth), kWidth});
    const bool normed = Is("qwen3moe") || Is("dots1") || Is("hunyuan-moe") || Is("bailingmoe2") ||
                        Is("step35") || Is("exaone-moe") || Is("afmoe") || Is("grovemoe") ||
                        Is("minimax-m3") || Is("qwen3vlmoe") || Is("hy_v3") || Is("laguna") ||
                        Is("lfm2moe");
    if (normed || hybrid_) Norm("attn_q_norm", kHeadWidth);
    if (normed || hybrid_) Norm("attn_k_norm", kHeadWidth);
    if (Is("olmoe") || Is("minimax-m2")) Norm("attn_q_norm", kHeads * kHeadWidth);
    if (Is("olmoe") || Is("minimax-m2")) Norm("attn_k_norm", kKeyHeads * kHeadWidth);
    if (!Is("minimax-m3") && !gated_) return;
    Own("indexer.q_proj.weight", {kKeyHeads * kHeadWidth, kWidth});
    Own("indexer.k_proj.weight", {kHeadWidth, kWidth});
    for (const char* name : {"indexer.q_norm", "indexer.k_norm"}) Norm(name, kHeadWidth);
  }

  void Delta() {
    const uint64_t values = kHeads * kDeltaWidth, mixed = 2 * kKeyHeads * kDeltaWidth + values;
    Own("attn_qkv.weight", {mixed, kWidth});
    Own("attn_gate.weight", {values, kWidth});
    if (Is("qwen3next")) {
      Own("ssm_ba.weight", {2 * kHeads, kWidth});
    } else {
      Own("ssm_beta.weight", {kHeads, kWidth});
      Own("ssm_alpha.weight", {kHeads, kWidth});
    }
    Own("ssm_conv1d.weight", {mixed, 4});
    Own("ssm_dt.bias", {kHeads});
    Trunk(prefix_ + "ssm_a", {kHeads}, 0.2f, -0.5f);
    Norm("ssm_norm", kDeltaWidth);
    Own("ssm_out.weight", {kWidth, values});
  }

  void Kda() {
    const uint64_t values = kHeads * kDeltaWidth;
    for (const char* part : {"q", "k", "v"}) {
      Own(std::string("attn_") + part + ".weight", {values, kWidth});
      Own(std::string("ssm_conv1d_") + part + ".weight", {values, 1, 4});
    }
    if (Is("kimi-k3")) {
      Own("ssm_f_a.weight", {kDeltaWidth, kWidth});
      Own("ssm_f_b.weight", {values, kDeltaWidth});
    } else {
      Own("ssm_f_a.weight", {values, kWidth});
    }
    Own(Is("kimi-k3") ? "ssm_g.weight" : "ssm_g_a.weight", {values, kWidth});
    Own("ssm_beta.weight", {kHeads, kWidth});
    Own("ssm_dt.bias", {values});
    if (Is("kimi-k3"))
      Trunk(prefix_ + "ssm_a", {kHeads}, 0.5f, -1);
    else
      Trunk(prefix_ + "ssm_a", {kHeads, 1}, 0.5f, 1);
    Norm("ssm_norm", kDeltaWidth);
    Own("attn_output.weight", {kWidth, values});
  }

  void Latent() {
    Own("attn_q_a.weight", {kQueryRank, kWidth});
    Norm("attn_q_a_norm", kQueryRank);
    Own("attn_q_b.weight", {kHeads * (kNope + kRotated), kQueryRank});
    Own("attn_kv_a_mqa.weight", {kRank + kRotated, kWidth});
    Norm("attn_kv_a_norm", kRank);
    Own("attn_k_b.weight", {kHeads, kRank, kNope});
    Own("attn_v_b.weight", {kHeads, kValueWidth, kRank});
    Own("attn_output.weight", {kWidth, kHeads * kValueWidth});
    if (Is("deepseek32")) Own("indexer.attn_k.weight", {kRotated, kWidth});
    if (Is("bailingmoe3")) Own("attn_gate.weight", {kHeads, kWidth});
    if (Is("kimi-k3")) Own("attn_gate.weight", {kHeads * kValueWidth, kWidth});
    if (Is("glm-dsa")) Indexer();
  }

  void Streams(const std::string& prefix, uint64_t rows, uint64_t scales) {
    Trunk(prefix + "fn.weight", {rows, kStreams * kWidth}, 0.4f);
    Trunk(prefix + "base.weight", {rows}, 0.4f);
    Trunk(prefix + "scale.weight", {scales}, 0.2f, 1);
  }

  void Compressor(const std::string& name) {
    for (const char* part : {"kv", "gate"}) Own(name + part + ".weight", {2 * kHeadWidth, kWidth});
    Own(name + "ape.weight", {4, 2 * kHeadWidth});
    Norm(name + "norm", kHeadWidth);
  }

  void Compressed() {
    for (const char* mixer : {"attn", "ffn"})
      Streams(prefix_ + "hc_" + mixer + "_", (2 + kStreams) * kStreams, 3);
    Own("attn_q_a.weight", {kQueryRank, kWidth});
    Norm("attn_q_a_norm", kQueryRank);
    Own("attn_q_b.weight", {kHeads * kHeadWidth, kQueryRank});
    Own("attn_kv.weight", {kHeadWidth, kWidth});
    Norm("attn_kv_a_norm", kHeadWidth);
    Own("attn_output_a.weight", {kGroups * kGroupRank, kHeads * kHeadWidth / kGroups});
    Own("attn_output_b.weight", {kWidth, kGroups * kGroupRank});
    Own("attn_sinks.weight", {kHeads});
    if (prefix_ != "blk.0.") return;
    Compressor("attn_compressor_");
    Compressor("indexer_compressor_");
    Own("indexer.attn_q_b.weight", {kKeyHeads * kHeadWidth, kQueryRank});
    Own("indexer.proj.weight", {kKeyHeads, kWidth});
  }

  // Two of four experts for each token, for some the same one twice.
  void ExpertTable() {
    auto memory = std::make_shared<std::vector<int32_t>>();
    constexpr int32_t kNamed[] = {1, 2, 5, 7};
    for (uint32_t token = 0; token < kVocabulary; ++token)
      memory->insert(memory->end(), {kNamed[token % 4], kNamed[token / 4 % 4]});
    weights_->trunk.push_back({prefix_ + "ffn_gate_tid2eid.weight",
                               quant::FindFormat("i32"),
                               {kVocabulary, 2},
                               std::as_bytes(std::span(*memory))});
    weights_->memory.push_back(std::move(memory));
  }

  void Indexer() {
    Own("indexer.attn_q_b.weight", {kKeyHeads * kHeadWidth, kQueryRank});
    Own("indexer.attn_k.weight", {kHeadWidth, kWidth});
    Norm("indexer.k_norm", kHeadWidth);
    Own("indexer.k_norm.bias", {kHeadWidth});
    Own("indexer.proj.weight", {kKeyHeads, kWidth});
  }

  void Shared() {
    if (!Is("nemotron_h_moe")) Own("ffn_gate_shexp.weight", {kInner, kWidth});
    Own("ffn_up_shexp.weight", {kInner, kWidth});
    Own("ffn_down_shexp.weight", {kWidth, kInner});
    if (Is("qwen2moe") || hybrid_) Own("ffn_gate_inp_shexp.weight", {1, kWidth});
  }

  // Of residual attention.
  void Scores() {
    for (const char* part : {"attn", "ffn"})
      Trunk(prefix_ + part + "_res_score.weight", {kWidth}, 1);
  }

  void Space(const std::string& name) {
    Own(name + "_down.weight", {kRank, kWidth});
    Own(name + "_up.weight", {kWidth, kRank});
    if (Is("kimi-k3")) Norm(name + "_norm", kRank);
  }

  // One chunk expert for each pair of experts.
  void Chunks() {
    Own("ffn_gate_chexps.weight", {kExperts / 2, kInner, kWidth});
    Own("ffn_up_chexps.weight", {kExperts / 2, kInner, kWidth});
    Own("ffn_down_chexps.weight", {kExperts / 2, kWidth, kInner});
  }

  void Experts(uint32_t layer) {
    Own("ffn_gate_inp.weight", {kExperts, kWidth});
    if (Is("gpt-oss")) Own("ffn_gate_inp.bias", {kExperts});
    const bool ungated = Is("nemotron_h_moe");
    const bool v3 = Is("glm4moe") || Is("dots1") || Is("bailingmoe2") || Is("exaone-moe") ||
                    Is("afmoe") || latent_ || ungated;
    if (v3 || Is("minimax-m2") || Is("minimax-m3") || Is("ernie4_5-moe") || Is("mimo2") ||
        Is("step35") || Is("laguna") || Is("lfm2moe"))
      Own("exp_probs_b.bias", {kExperts});
    if (Is("hy_v3")) Own("exp_probs_b", {kExperts});
    if (Is("deepseek4")) layer == 0 ? ExpertTable() : Own("exp_probs_b.bias", {kExperts});
    const bool shared = Is("qwen2moe") || Is("llama4") || Is("ernie4_5-moe") || Is("hunyuan-moe") ||
                        Is("bailingmoe") || Is("step35") || Is("minimax-m3") || Is("cohere2moe") ||
                        Is("hy_v3") || Is("laguna") || Is("granitehybrid") || Is("deepseek4") ||
                        hybrid_;
    if (v3 || shared) Shared();
    if (Is("grovemoe")) Chunks();
    weights_->moe_layers[layer] = kExperts;
    for (uint32_t id = 0; id < kExperts; ++id) set_.experts_by_layer[layer].push_back(id);
    if (Is("gemma4"))
      set_.tensors.push_back(Make(prefix_ + "ffn_down_exps.scale", {kExperts}, 0.2f, 1));
    const bool space = ungated || Is("kimi-k3");
    if (space) Space(ungated ? "ffn_latent" : "ffn_routed");
    for (const char* kind : {"gate", "up", "down"}) {
      if (ungated && kind[0] == 'g') continue;
      const bool down = kind[0] == 'd';
      const uint64_t width = space ? kRank : kWidth;
      const bool fused = Is("mistral4");  // gate and up are one tensor
      if (fused && kind[0] == 'u') continue;
      const uint64_t inner = fused && !down ? 2 * kInner : kInner;
      const uint64_t rows = down ? width : inner, columns = down ? kInner : width;
      const std::string name = prefix_ + "ffn_" + kind + (fused && !down ? "_up_exps." : "_exps.");
      set_.tensors.push_back(Make(name + "weight", {kExperts, rows, columns}, 0.4f, 0));
      if (Is("gpt-oss")) set_.tensors.push_back(Make(name + "bias", {kExperts, rows}, 0.2f, 0));
    }
  }

  std::string architecture_, prefix_;
  bool latent_ = false, hybrid_ = false, kda_ = false;
  bool gated_ = false;  // several residual streams, and n-grams that are embedded
  Numbers numbers_;
  std::shared_ptr<Weights> weights_;
  ExpertSet set_;
};

}  // namespace
}  // namespace tiny

std::shared_ptr<Weights> TinyWeights(const std::string& architecture) {
  return tiny::Builder(architecture).Build();
}

std::shared_ptr<Weights> WithExperts(const Weights& weights, const ExpertIds& ids) {
  auto cut = std::make_shared<Weights>(weights);
  ExpertSet& set = cut->sets[0];
  set.label = "group 0";
  set.group = 0;
  for (auto& [layer, experts] : set.experts_by_layer) experts = ids;
  for (HostTensor& tensor : set.tensors) {
    const size_t one = tensor.bytes.size() / tensor.shape[0];
    auto memory = std::make_shared<std::vector<std::byte>>();
    for (const uint32_t id : ids) {
      const auto part = tensor.bytes.Part(id * one, one);
      memory->insert(memory->end(), part.begin(), part.end());
    }
    tensor.shape[0] = ids.size();
    tensor.bytes = *memory;
    cut->memory.push_back(std::move(memory));
  }
  return cut;
}

std::shared_ptr<Weights> WithExpertsApart(const Weights& weights) {
  auto apart = std::make_shared<Weights>(weights);
  for (HostTensor& tensor : apart->sets[0].tensors) {
    if (tensor.shape.size() != 3) continue;
    const size_t one = tensor.bytes.size() / tensor.shape[0];
    std::vector<ByteView> experts;
    for (uint64_t id = 0; id < tensor.shape[0]; ++id) {
      const auto part = tensor.bytes.Part(id * one, one);
      auto memory = std::make_shared<std::vector<std::byte>>(part.begin(), part.end());
      experts.push_back(*memory);
      apart->memory.push_back(std::move(memory));
    }
    tensor.bytes = TensorBytes(std::move(experts));
  }
  return apart;
}

float& ValueOf(Weights& weights, const std::string& name, size_t index) {
  const auto find = [&](std::vector<HostTensor>& tensors) -> float* {
    for (HostTensor& tensor : tensors) {
      if (tensor.name != name) continue;
      auto* bytes = const_cast<std::byte*>(tensor.bytes.whole().data());
      return reinterpret_cast<float*>(bytes) + index;
    }
    return nullptr;
  };
  float* value = find(weights.trunk);
  return value != nullptr ? *value : *find(weights.sets[0].tensors);
}

}  // namespace moepack::runtime
