// A tiny checkpoint that can be changed in every way before it is converted.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/convert/gguf_model.h"
#include "tests/libshard/pack/tensor_bytes.h"

namespace moepack {

// F32 tensors whose values count up from tensor to tensor: every value occurs only once.
class ConvertSample {
 public:
  Json config, tokenizer, tokenizer_config;
  std::vector<fixtures::RawTensor> tensors;

  // One layer, two experts of width 2, hidden size 4, 2 query heads, 1 key head of 2, 5 tokens.
  static ConvertSample Qwen3Moe() {
    ConvertSample sample;
    sample.config = Json::parse(R"({"architectures": ["Qwen3MoeForCausalLM"],
      "model_type": "qwen3_moe", "num_hidden_layers": 1, "hidden_size": 4, "head_dim": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "num_experts": 2,
      "num_experts_per_tok": 1, "moe_intermediate_size": 2, "vocab_size": 5,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000,
      "norm_topk_prob": true, "tie_word_embeddings": false})");
    sample.AddCommon();
    sample.Add("model.layers.0.self_attn.q_norm.weight", {2});
    sample.Add("model.layers.0.self_attn.k_norm.weight", {2});
    sample.Add("model.layers.0.mlp.gate.weight", {2, 4});
    for (const char* expert : {"model.layers.0.mlp.experts.0.", "model.layers.0.mlp.experts.1."}) {
      sample.Add(std::string(expert) + "gate_proj.weight", {2, 4});
      sample.Add(std::string(expert) + "up_proj.weight", {2, 4});
      sample.Add(std::string(expert) + "down_proj.weight", {4, 2});
    }
    return sample;
  }

  // The same with a layer before it that has three experts.
  static ConvertSample PrunedByLayer() {
    ConvertSample sample = Qwen3Moe();
    for (fixtures::RawTensor& tensor : sample.tensors) {
      if (const size_t at = tensor.name.find(".0."); tensor.name.starts_with("model.layers."))
        tensor.name.replace(at, 3, ".1.");
    }
    sample.config["num_hidden_layers"] = 2;
    const std::string at = "model.layers.0.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      sample.Add(at + norm + ".weight", {4});
    for (const char* name : {"q", "o"})
      sample.Add(at + "self_attn." + name + "_proj.weight", {4, 4});
    for (const char* name : {"k", "v"})
      sample.Add(at + "self_attn." + name + "_proj.weight", {2, 4});
    for (const char* name : {"q", "k"}) sample.Add(at + "self_attn." + name + "_norm.weight", {2});
    sample.Add(at + "mlp.gate.weight", {3, 4});
    for (const char* expert : {"0.", "1.", "2."}) {
      const std::string module = at + "mlp.experts." + expert;
      sample.Add(module + "gate_proj.weight", {2, 4});
      sample.Add(module + "up_proj.weight", {2, 4});
      sample.Add(module + "down_proj.weight", {4, 2});
    }
    return sample;
  }

  // The same with two key heads of four values.
  static ConvertSample Mixtral() {
    ConvertSample sample;
    sample.config = Json::parse(R"({"architectures": ["MixtralForCausalLM"],
      "model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 8,
      "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2,
      "num_experts_per_tok": 1, "intermediate_size": 2, "vocab_size": 5,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
    sample.AddCommon(8, 4);
    sample.Add("model.layers.0.block_sparse_moe.gate.weight", {2, 8});
    for (const char* expert : {"0", "1"}) {
      const std::string at = std::string("model.layers.0.block_sparse_moe.experts.") + expert;
      sample.Add(at + ".w1.weight", {2, 8});
      sample.Add(at + ".w2.weight", {8, 2});
      sample.Add(at + ".w3.weight", {2, 8});
    }
    return sample;
  }

  void Add(const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t dimension : shape) count *= dimension;
    std::vector<float> values(count);
    for (float& value : values) value = next_++;
    std::string bytes(count * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    tensors.push_back({name, "F32", shape, bytes});
  }
  fixtures::RawTensor& Tensor(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == name; });
  }
  void Reshape(const std::string& name, const std::vector<uint64_t>& shape) {
    std::erase_if(tensors, [&](auto& t) { return t.name == name; });
    Add(name, shape);
  }
  // Projections of layer 0 for `heads` query heads and one key head of `size` values.
  void SetHeads(uint64_t heads, uint64_t size, uint64_t hidden) {
    const std::string at = "model.layers.0.self_attn.";
    Reshape(at + "q_proj.weight", {heads * size, hidden});
    for (const char* name : {"k_proj", "v_proj"}) Reshape(at + name + ".weight", {size, hidden});
    Reshape(at + "o_proj.weight", {hidden, heads * size});
  }
  void Remove(const std::string& part) {
    std::erase_if(tensors, [&](auto& t) { return t.name.find(part) != std::string::npos; });
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(*dir_ / name, std::ios::binary) << text;
  }
  fs::path path() const { return dir_->path(); }

  Result<MoeModel> Open() const {
    Write("config.json", config.dump());
    if (!tokenizer.is_null()) Write("tokenizer.json", tokenizer.dump());
    if (!tokenizer_config.is_null()) Write("tokenizer_config.json", tokenizer_config.dump());
    EXPECT_TRUE(fixtures::WriteSafetensors(*dir_ / "model.safetensors", tensors));
    return MoeModel::Open(dir_->path());
  }
  // The result borrows a model that lives as long as the sample.
  Result<GgufModel> Convert(const ConvertOptions& options = {}) const {
    SHARD_TRY(MoeModel model, Open());
    return ToGguf(*models_.emplace_back(std::make_shared<MoeModel>(std::move(model))), options);
  }
  // The values of a source tensor.
  std::vector<float> Values(const std::string& name) { return FloatsOf(Tensor(name).bytes); }
  // The values of a GGUF tensor, made from its sources.
  std::vector<float> Values(const GgufModel& model, const std::string& name) const {
    const auto checkpoint = Checkpoint::Open(dir_->path());
    for (const GgufTensor& tensor : model.tensors) {
      if (tensor.name == name) return golden::ReadRows(*checkpoint, tensor);
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

 private:
  static std::vector<float> FloatsOf(const std::string& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void AddCommon(uint64_t hidden = 4, uint64_t head = 2) {
    tokenizer = Json::parse(R"({"added_tokens": [{"id": 3, "content": "<|end|>", "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
    Add("model.embed_tokens.weight", {5, hidden});
    Add("model.norm.weight", {hidden});
    Add("lm_head.weight", {5, hidden});
    const std::string at = "model.layers.0.";
    Add(at + "input_layernorm.weight", {hidden});
    Add(at + "post_attention_layernorm.weight", {hidden});
    Add(at + "self_attn.q_proj.weight", {2 * head, hidden});
    for (const char* name : {"k", "v"})
      Add(at + "self_attn." + name + "_proj.weight", {head, hidden});
    Add(at + "self_attn.o_proj.weight", {hidden, 2 * head});
  }

  std::shared_ptr<const fixtures::TempDir> dir_ = std::make_shared<fixtures::TempDir>();
  mutable std::vector<std::shared_ptr<const MoeModel>> models_;
  float next_ = 1;
};

}  // namespace moepack
