#include "libshard/check/module.h"

#include "libshard/base/text_map.h"

namespace moepack {
namespace {

const TextMap<std::string_view, Module>& Modules() {
  static const auto* const kModules = new TextMap<std::string_view, Module>{
      {"gate_proj", Module::kGate},
      {"up_proj", Module::kUp},
      {"w1", Module::kGate},
      {"w3", Module::kUp},
      {"fc1", Module::kUp},
      {"v1", Module::kUp},
      {"gate_up_proj", Module::kFusedIn},
      {"up_gate_proj", Module::kFusedIn},
      {"input_linear", Module::kFusedIn},
      {"down_proj", Module::kDown},
      {"w2", Module::kDown},
      {"fc2", Module::kDown},
      {"output_linear", Module::kDown},
      {"q_proj", Module::kQuery},
      {"k_proj", Module::kKey},
      {"v_proj", Module::kKey},
      {"o_proj", Module::kAttentionOut},
      {"q_a_proj", Module::kQueryA},
      {"q_b_proj", Module::kQueryB},
      {"kv_a_proj_with_mqa", Module::kLatentA},
      {"kv_b_proj", Module::kLatentB},
      {"q_a_layernorm", Module::kQueryANorm},
      {"kv_a_layernorm", Module::kLatentNorm},
      {"input_layernorm", Module::kNorm},
      {"post_attention_layernorm", Module::kNorm},
      {"norm", Module::kNorm},
      {"norm_f", Module::kNorm},
      {"ffn_norm", Module::kNorm},
      {"operator_norm", Module::kNorm},
      {"attn_norm", Module::kNorm},
      {"final_layernorm", Module::kNorm},
      {"embedding_norm", Module::kNorm},
      {"enorm", Module::kNorm},
      {"hnorm", Module::kNorm},
      {"pre_ff_layernorm", Module::kNorm},
      {"output_norm", Module::kNorm},
      {"post_attention_norm", Module::kNorm},
      {"embed_tokens", Module::kVocabulary},
      {"word_embeddings", Module::kVocabulary},
      {"wte", Module::kVocabulary},
      {"embeddings", Module::kVocabulary},
      {"embed", Module::kVocabulary},
      {"lm_head", Module::kVocabulary},
      {"head", Module::kVocabulary},
      {"token_embd", Module::kVocabulary},
      {"output", Module::kVocabulary},
      {"eh_proj", Module::kJoin},
      {"ffn_gate", Module::kGate},
      {"ffn_up", Module::kUp},
      {"ffn_down", Module::kDown},
      {"ffn_gate_shexp", Module::kGate},
      {"ffn_up_shexp", Module::kUp},
      {"ffn_down_shexp", Module::kDown},
  };
  return *kModules;
}

}  // namespace

std::optional<Module> ModuleNamed(std::string_view name) {
  const auto known = Modules().find(name);
  return known == Modules().end() ? std::nullopt : std::optional(known->second);
}

std::optional<Module> ModuleOf(std::string_view role, std::string_view name) {
  if (role == "gate") return Module::kGate;
  if (role == "up") return Module::kUp;
  if (role == "gate_up") return Module::kFusedIn;
  if (role == "down") return Module::kDown;
  return ModuleNamed(name);
}

}  // namespace moepack
