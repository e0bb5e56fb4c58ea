// The names that configs use for each field. Model, checks and conversion share this table, so that
// all of them read the same number. HfConfig::Find determines which name counts.
#pragma once

#include "libshard/model/hf_config.h"

namespace moepack::fields {

// Sizes. For published configs see docs/families.md, which names one of each family.
inline constexpr ConfigKeys kLayers = {"num_hidden_layers", "n_layers", "num_layers", "n_layer"};
inline constexpr ConfigKeys kMtpLayers = {"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                          "num_mtp_modules", "num_mtp_layers"};
inline constexpr ConfigKeys kHiddenSize = {"hidden_size", "d_model", "n_embd", "dim"};
inline constexpr ConfigKeys kVocabulary = {"vocab_size"};
inline constexpr ConfigKeys kHeads = {"num_attention_heads", "n_head", "n_heads"};
inline constexpr ConfigKeys kKeyHeads = {"num_key_value_heads", "n_kv_heads",
                                         "num_attention_groups"};

// Experts of a layer. "top_k" is not among them: it is a sampling parameter that old configs have
// beside the model's.
inline constexpr ConfigKeys kExperts = {"num_local_experts",  "num_experts",     "n_routed_experts",
                                        "num_routed_experts", "moe_num_experts", "num_moe_experts"};
inline constexpr ConfigKeys kTopK = {"num_experts_per_tok", "num_experts_per_token",
                                     "experts_per_token",   "moe_topk",
                                     "moe_top_k",           "moe_k",
                                     "top_k_experts",       "moe_router_topk"};
inline constexpr ConfigKeys kExpertWidth = {"moe_intermediate_size", "expert_intermediate_size",
                                            "moe_ffn_hidden_size"};
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
                                       "moe_router_activation_func"};
inline constexpr ConfigKeys kNormalize = {"norm_topk_prob", "norm_expert_weight",
                                          "moe_normalize_expert_weights"};
inline constexpr ConfigKeys kScale = {"routed_scaling_factor", "moe_routed_scaling_factor",
                                      "moe_router_scaling_factor"};

}  // namespace moepack::fields
