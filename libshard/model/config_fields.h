// The names under which configs spell each field: sizes, experts, router and storage; those of
// kinds of layers are in layer_fields.h. Model, checks, conversion and fit share these tables, so
// that all of them read the same number. HfConfig::Find says which name counts. A field that two
// files read, or that has several names, is listed here and nowhere else
// (tests/tree/config_fields.sh).
#pragma once

#include "libshard/model/hf_config.h"

namespace moepack::fields {

// Sizes. For published configs see docs/families.md, which names one of each family.
inline constexpr ConfigKeys kLayers = {"num_hidden_layers", "n_layers", "num_layers", "n_layer"};
inline constexpr ConfigKeys kMtpLayers = {"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                          "num_mtp_modules", "num_mtp_layers"};
inline constexpr ConfigKeys kHiddenSize = {"hidden_size", "d_model", "n_embd", "dim"};
inline constexpr ConfigKeys kVocabulary = {"vocab_size"};
inline constexpr ConfigKeys kContext = {
    "max_position_embeddings", "n_ctx",           "n_positions", "max_length",
    "max_sequence_length",     "model_max_length"};
inline constexpr ConfigKeys kEpsilon = {"rms_norm_eps", "norm_eps", "layernorm_epsilon"};
inline constexpr ConfigKeys kTied = {"tie_word_embeddings", "tie_embedding"};
// Of feed-forward parts.
inline constexpr ConfigKeys kActivation = {"mlp_hidden_act", "hidden_activation", "hidden_act"};

// Attention.
inline constexpr ConfigKeys kHeads = {"num_attention_heads", "n_head", "n_heads"};
inline constexpr ConfigKeys kKeyHeads = {"num_key_value_heads", "n_kv_heads",
                                         "num_attention_groups"};
inline constexpr ConfigKeys kHeadSize = {"head_dim", "attention_head_dim"};
inline constexpr ConfigKeys kValueHeadSize = {"v_head_dim"};
// A list with one number of query heads per layer.
inline constexpr ConfigKeys kHeadsPerLayer = {"num_attention_heads_per_layer"};

// Widths of feed-forward parts. A config with one width for all of them has only the plain one;
// ExpertWidth and DenseWidth below choose.
inline constexpr ConfigKeys kPlainWidth = {"intermediate_size", "ffn_hidden_size", "n_inner",
                                           "hidden_dim"};
inline constexpr ConfigKeys kOwnDenseWidth = {"prefix_dense_intermediate_size",
                                              "dense_intermediate_size", "intermediate_size_mlp"};
inline constexpr ConfigKeys kDoubleWidth = {"use_double_wide_mlp"};

// Experts of a layer. "top_k" is not among them: it is a sampling parameter that old configs have
// beside the model's.
inline constexpr ConfigKeys kExperts = {
    "num_local_experts", "num_experts",     "n_routed_experts",       "num_routed_experts",
    "moe_num_experts",   "num_moe_experts", "moe_num_primary_experts"};
inline constexpr ConfigKeys kTopK = {"num_experts_per_tok",
                                     "num_experts_per_token",
                                     "experts_per_token",
                                     "moe_topk",
                                     "moe_top_k",
                                     "moe_k",
                                     "top_k_experts",
                                     "moe_router_topk",
                                     "moe_num_active_primary_experts"};
inline constexpr ConfigKeys kExpertWidth = {"moe_intermediate_size", "expert_intermediate_size",
                                            "moe_ffn_hidden_size"};
inline constexpr ConfigKeys kLatentWidth = {"moe_latent_size",  // of the experts' input
                                            "routed_expert_hidden_size"};
inline constexpr ConfigKeys kSharedExperts = {"n_shared_experts", "num_shared_experts",
                                              "num_shared_expert", "moe_num_shared_experts"};
inline constexpr ConfigKeys kSharedWidth = {"shared_expert_intermediate_size",
                                            "moe_shared_expert_intermediate_size",
                                            "shared_intermediate_size", "share_expert_dim"};

// The router.
inline constexpr ConfigKeys kExpertGroups = {"n_group"};
inline constexpr ConfigKeys kExpertGroupsUsed = {"topk_group"};
inline constexpr ConfigKeys kGating = {"score_function",
                                       "scoring_func",
                                       "score_func",
                                       "moe_router_score_function",
                                       "moe_router_activation",
                                       "moe_router_activation_func",
                                       "expert_selection_fn"};
inline constexpr ConfigKeys kNormalize = {"norm_topk_prob", "norm_expert_weight",
                                          "moe_normalize_expert_weights", "moe_renormalize",
                                          "route_norm"};
inline constexpr ConfigKeys kScale = {"routed_scaling_factor", "moe_routed_scaling_factor",
                                      "moe_router_scaling_factor", "router_scaling_factor",
                                      "route_scale"};
inline constexpr ConfigKeys kSelectionBias = {"use_routing_bias", "moe_use_aux_free",
                                              "use_expert_bias", "use_moe_router_bias",
                                              "moe_router_enable_expert_bias"};

// Storage.
inline constexpr ConfigKeys kDtype = {"torch_dtype", "dtype"};
inline constexpr ConfigKeys kQuantization = {"quantization_config", "compression_config",
                                             "quantization"};
inline constexpr ConfigKeys kPackedBits = {"bits", "w_bit"};  // in kQuantization: GPTQ and AWQ

// Modules that are not quantized (in kQuantization).
inline constexpr ConfigKeys kUnquantized = {"modules_to_not_convert", "ignored_layers", "ignore"};

// Returns the field that gives the width of a routed expert, or of a dense feed-forward part: its
// own where the config has one, else the plain width.
inline ConfigKeys ExpertWidth(const HfConfig& config) {
  return config.Has(kExpertWidth) ? kExpertWidth : kPlainWidth;
}
inline ConfigKeys DenseWidth(const HfConfig& config) {
  return config.Has(kOwnDenseWidth) ? kOwnDenseWidth : kPlainWidth;
}

}  // namespace moepack::fields
