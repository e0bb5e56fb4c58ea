// The parts of config.json that this project needs. Nested text configs are merged, and the many
// spellings of a field are read as one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/family.h"

namespace moepack {

// Bounds for the numbers of a config or of GGUF metadata.
inline constexpr uint64_t kMaxModelCount = 1u << 20;  // layers, experts
inline constexpr uint64_t kMaxModelWidth = 1u << 30;  // hidden sizes, vocabulary

struct ModelConfig {
  std::string architecture;       // architectures[0] of the root, "" if absent
  std::string text_architecture;  // architectures[0] of the nested text config, "" if absent
  std::string model_type, text_model_type;
  uint32_t layers = 0;        // decoder layers, without multi-token-prediction blocks
  uint32_t mtp_layers = 0;    // as the config announces them; the tensors decide
  uint32_t expert_count = 0;  // routed experts per layer; 0: the config names none (a dense model)
  std::vector<uint32_t> experts_per_layer;  // if the config gives a list
  uint32_t top_k = 0;                       // 0: not stated
  std::vector<uint32_t> top_k_per_layer;  // if the config gives a list (top_k is then its maximum)
  uint32_t hidden_size = 0, expert_intermediate_size = 0, vocab_size = 0;
  uint32_t shared_experts = 0;  // count, or 1 if the config only gives their width
  // what the config says about the router; ResolveRouting adds the rest
  StatedRouting routing;
  std::string quant_method;      // quantization_config.quant_method, "" if absent
                                 // ("compressed-tensors", "fp8", ...)
  uint32_t quant_bits = 0;       // width of packed integers, 0 if not stated
  std::string expert_count_key;  // the key that gave `expert_count`, with its parent
                                 // ("text_config.num_experts")
};

// The keys under which configs give the number of routed experts.
std::span<const char* const> ExpertCountKeys();

// `where` names the file in errors. Refuses NaN, negative or absurd counts (over kMaxModelCount),
// two expert pools in one model, and as kUnsupported a gating function that we do not know.
Result<ModelConfig> ParseModelConfig(const std::string& where, std::string_view text);

// Returns how the model's router selects and weighs experts: what the config or metadata state
// overrides the family's usual behaviour. `bias` is the family's; the tensors decide later
// (MoeModel::routing).
Routing ResolveRouting(const Family& family, const ModelConfig& config);

}  // namespace moepack
