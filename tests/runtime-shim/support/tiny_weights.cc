#include "tests/runtime-shim/support/tiny_weights.h"

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

namespace moepack::runtime {
namespace {

constexpr uint32_t kLayers = 2, kWidth = 32, kVocabulary = 40, kExperts = 8, kInner = 16;
constexpr uint32_t kHeads = 4, kKeyHeads = 2, kHeadWidth = 8;
constexpr uint32_t kRank = 12, kNope = 8, kRotated = 4, kValueWidth = 6, kQueryRank = 20;

using Memory = std::vector<float>;

// A small generator of the tests' own, so that the numbers are the same everywhere.
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
    latent_ = architecture == "deepseek2";
  }

  std::shared_ptr<Weights> Build() {
    Keys();
    Trunk("token_embd.weight", {kVocabulary, kWidth}, 1);
    Trunk("output.weight", {kVocabulary, kWidth}, 1);
    Norm("output_norm", kWidth);
    if (Is("phimoe")) Trunk("output.bias", {kVocabulary}, 0.1f);
    set_.label = "model";
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      Norm("attn_norm", kWidth);
      latent_ ? Latent() : Heads();
      const bool post = Is("glm4moe") || Is("gpt-oss");
      Norm(post ? "post_attention_norm" : "ffn_norm", kWidth);
      Experts(layer);
    }
    weights_->sets.push_back(std::move(set_));
    return weights_;
  }

 private:
  bool Is(const char* name) const { return architecture_ == name; }
  void Key(const char* key, GgufValue value) {
    weights_->metadata.Set(architecture_ + "." + key, std::move(value));
  }

  void Keys() {
    Key("block_count", GgufValue::U32(kLayers));
    Key("context_length", GgufValue::U32(128));
    Key("embedding_length", GgufValue::U32(kWidth));
    Key("attention.head_count", GgufValue::U32(kHeads));
    Key("attention.head_count_kv", GgufValue::U32(latent_ ? 1 : kKeyHeads));
    Key("attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5f));
    Key("expert_count", GgufValue::U32(kExperts));
    Key("expert_used_count", GgufValue::U32(2));
    if (Is("granitemoe")) Key("logit_scale", GgufValue::F32(2));
    if (Is("granitemoe")) Key("residual_scale", GgufValue::F32(0.5f));
    if (Is("gpt-oss")) Key("attention.sliding_window", GgufValue::U32(3));
    if (Is("minimax-m2") || latent_) Key("expert_gating_func", GgufValue::U32(2));
    if (Is("glm4moe") || latent_) Key("expert_weights_norm", GgufValue::Bool(true));
    if (!latent_) return;
    Key("rope.dimension_count", GgufValue::U32(kRotated));
    Key("attention.key_length_mla", GgufValue::U32(kNope + kRotated));
    Key("attention.value_length_mla", GgufValue::U32(kValueWidth));
    Key("attention.kv_lora_rank", GgufValue::U32(kRank));
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
    const bool whole = name == "output_norm";
    Trunk((whole ? "" : prefix_) + name + ".weight", {width}, 0.2f, 1);
    if (Is("phimoe")) Trunk((whole ? "" : prefix_) + name + ".bias", {width}, 0.1f);
  }

  void Heads() {
    Own("attn_q.weight", {kHeads * kHeadWidth, kWidth});
    Own("attn_k.weight", {kKeyHeads * kHeadWidth, kWidth});
    Own("attn_v.weight", {kKeyHeads * kHeadWidth, kWidth});
    Own("attn_output.weight", {kWidth, kHeads * kHeadWidth});
    if (Is("qwen2moe") || Is("gpt-oss") || Is("phimoe")) {
      Own("attn_q.bias", {kHeads * kHeadWidth});
      Own("attn_k.bias", {kKeyHeads * kHeadWidth});
      Own("attn_v.bias", {kKeyHeads * kHeadWidth});
    }
    if (Is("gpt-oss")) Own("attn_sinks.weight", {kHeads});
    if (Is("qwen3moe")) Norm("attn_q_norm", kHeadWidth);
    if (Is("qwen3moe")) Norm("attn_k_norm", kHeadWidth);
    if (Is("olmoe") || Is("minimax-m2")) Norm("attn_q_norm", kHeads * kHeadWidth);
    if (Is("olmoe") || Is("minimax-m2")) Norm("attn_k_norm", kKeyHeads * kHeadWidth);
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
  }

  void Shared() {
    Own("ffn_gate_shexp.weight", {kInner, kWidth});
    Own("ffn_up_shexp.weight", {kInner, kWidth});
    Own("ffn_down_shexp.weight", {kWidth, kInner});
    if (Is("qwen2moe")) Own("ffn_gate_inp_shexp.weight", {1, kWidth});
  }

  void Experts(uint32_t layer) {
    Own("ffn_gate_inp.weight", {kExperts, kWidth});
    if (Is("gpt-oss")) Own("ffn_gate_inp.bias", {kExperts});
    if (Is("glm4moe") || Is("minimax-m2") || latent_) Own("exp_probs_b.bias", {kExperts});
    if (Is("qwen2moe") || Is("glm4moe") || Is("llama4") || latent_) Shared();
    weights_->moe_layers[layer] = kExperts;
    for (uint32_t id = 0; id < kExperts; ++id) set_.experts_by_layer[layer].push_back(id);
    for (const char* kind : {"gate", "up", "down"}) {
      const bool down = kind[0] == 'd';
      const uint64_t rows = down ? kWidth : kInner, columns = down ? kInner : kWidth;
      const std::string name = prefix_ + "ffn_" + kind + "_exps.";
      set_.tensors.push_back(Make(name + "weight", {kExperts, rows, columns}, 0.4f, 0));
      if (Is("gpt-oss")) set_.tensors.push_back(Make(name + "bias", {kExperts, rows}, 0.2f, 0));
    }
  }

  std::string architecture_, prefix_;
  bool latent_ = false;
  Numbers numbers_;
  std::shared_ptr<Weights> weights_;
  ExpertSet set_;
};

}  // namespace

std::shared_ptr<Weights> TinyWeights(const std::string& architecture) {
  return Builder(architecture).Build();
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
      const auto part = tensor.bytes.subspan(id * one, one);
      memory->insert(memory->end(), part.begin(), part.end());
    }
    tensor.shape[0] = ids.size();
    tensor.bytes = *memory;
    cut->memory.push_back(std::move(memory));
  }
  return cut;
}

float& ValueOf(Weights& weights, const std::string& name, size_t index) {
  const auto find = [&](std::vector<HostTensor>& tensors) -> float* {
    for (HostTensor& tensor : tensors) {
      if (tensor.name != name) continue;
      auto* bytes = const_cast<std::byte*>(tensor.bytes.data());
      return reinterpret_cast<float*>(bytes) + index;
    }
    return nullptr;
  };
  float* value = find(weights.trunk);
  return value != nullptr ? *value : *find(weights.sets[0].tensors);
}

}  // namespace moepack::runtime
