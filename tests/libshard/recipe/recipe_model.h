// GGUF models of names, shapes and types alone, for tests of the choices of recipes.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// A tensor of a model; `shape` slowest dimension first. Names with _exps are experts; blk.N. gives
// the layer.
inline GgufTensor RecipeTensor(const std::string& name, std::vector<uint64_t> shape,
                               const std::string& stored = "bf16") {
  GgufTensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.stored = tensor.type = quant::FindFormat(stored);
  if (name.starts_with("blk.")) {
    tensor.layer = static_cast<uint32_t>(ParseUint(Split(name, '.')[1]).value_or(0));
  }
  if (name.find("_exps") != std::string::npos) {
    tensor.part = Part::kExpert;
    tensor.expert_count = static_cast<uint32_t>(tensor.shape[0]);
  }
  return tensor;
}

struct RecipeShape {
  std::string architecture = "qwen3moe";
  uint32_t layers = 32, experts = 16, heads = 16, kv_heads = 8;
  uint64_t width = 512, expert_width = 256;
  bool output = true;
  std::string stored = "bf16";
};

// Embedding, output and per layer: attention, norms, a router, three expert matrices.
inline GgufModel RecipeModel(const RecipeShape& shape = {}) {
  GgufModel model;
  const std::string prefix = shape.architecture + ".";
  model.metadata.Set("general.architecture", GgufValue::String(shape.architecture));
  model.metadata.Set(prefix + "block_count", GgufValue::U32(shape.layers));
  if (shape.experts > 1) model.metadata.Set(prefix + "expert_count", GgufValue::U32(shape.experts));
  model.metadata.Set(prefix + "attention.head_count", GgufValue::U32(shape.heads));
  model.metadata.Set(prefix + "attention.head_count_kv", GgufValue::U32(shape.kv_heads));
  const auto add = [&](const std::string& name, std::vector<uint64_t> dims, bool fixed = false) {
    // A quantized source has its norms in F32, too.
    const bool plain = fixed && quant::FindFormat(shape.stored)->block_values > 1;
    model.tensors.push_back(RecipeTensor(name, std::move(dims), plain ? "f32" : shape.stored));
    model.tensors.back().fixed = fixed;
  };
  const uint64_t width = shape.width, wide = shape.expert_width, experts = shape.experts;
  add("token_embd.weight", {1000, width});
  if (shape.output) add("output.weight", {1000, width});
  add("output_norm.weight", {width}, true);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = Cat("blk.", layer, ".");
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      add(block + name + ".weight", {width, width});
    }
    add(block + "attn_norm.weight", {width}, true);
    add(block + "ffn_gate_inp.weight", {experts, width}, true);
    add(block + "ffn_gate_exps.weight", {experts, wide, width});
    add(block + "ffn_up_exps.weight", {experts, wide, width});
    add(block + "ffn_down_exps.weight", {experts, width, wide});
  }
  return model;
}

inline const GgufTensor& TensorOf(const GgufModel& model, std::string_view name) {
  return *std::find_if(model.tensors.begin(), model.tensors.end(),
                       [&](const GgufTensor& tensor) { return tensor.name == name; });
}
// REQUIRES: there is such a tensor.
inline std::string TypeOf(const GgufModel& model, const std::string& name) {
  return std::string(TensorOf(model, name).type->name);
}

// As an importance matrix would set them.
inline void GiveImportance(GgufModel& model) {
  for (GgufTensor& tensor : model.tensors) tensor.importance = std::make_shared<Importance>();
}

}  // namespace moepack
