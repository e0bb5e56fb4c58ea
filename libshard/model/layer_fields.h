// The names under which configs say what kind each layer is, and spell the sizes of attention with
// a window, of latent and linear attention, of Mamba layers, and of rotary angles (config_fields.h
// has the rest).
#pragma once

#include "libshard/model/hf_config.h"

namespace moepack::fields {

// Kinds of layers. The first lists have an entry per layer, each with words of its own.
inline constexpr ConfigKeys kLayerTypes = {"layer_types"};
// The mixer or feed-forward part that a layer consists of, as words or letters.
inline constexpr ConfigKeys kBlockKinds = {"hybrid_override_pattern", "layers_block_type",
                                           "block_type"};
// A list of objects, one per layer, with its block_type and the sizes that differ between layers.
inline constexpr ConfigKeys kBlockConfigs = {"block_configs"};
inline constexpr ConfigKeys kAttentionTypes = {"attn_type_list"};
// 1 is a window.
inline constexpr ConfigKeys kWindowPattern = {"hybrid_layer_pattern", "sliding_window_layout"};
inline constexpr ConfigKeys kCompressRatios = {"compress_ratios"};
inline constexpr ConfigKeys kFullInterval = {"full_attention_interval"};
inline constexpr ConfigKeys kLayerGroup = {"layer_group_size"};  // the last of each is latent
inline constexpr ConfigKeys kLinearSettings = {"linear_attn_config"};
// In it, numbers of layers, the first of which is 1.
inline constexpr ConfigKeys kFullNumbers = {"full_attn_layers"};
inline constexpr ConfigKeys kLinearNumbers = {"kda_layers"};
inline constexpr ConfigKeys kAttentionPeriod = {"attn_layer_period"};
inline constexpr ConfigKeys kAttentionOffset = {"attn_layer_offset"};

// Layers with experts.
inline constexpr ConfigKeys kMlpTypes = {"mlp_layer_types"};     // "dense" or "sparse"
inline constexpr ConfigKeys kMoeFrequency = {"moe_layer_freq"};  // 0 or 1 per layer, or a distance
inline constexpr ConfigKeys kMoeNumbers = {"moe_layers"};
inline constexpr ConfigKeys kMoeNumbersText = {"moe_layers_enum"};  // "3,4,5"
inline constexpr ConfigKeys kMoeInterval = {"moe_layer_interval"};
inline constexpr ConfigKeys kMoeStart = {"moe_layer_start_index"};
inline constexpr ConfigKeys kMoeEnd = {"moe_layer_end_index"};  // the last one; -1: of all
inline constexpr ConfigKeys kMoePeriod = {"expert_layer_period"};
inline constexpr ConfigKeys kMoeOffset = {"expert_layer_offset"};
inline constexpr ConfigKeys kSparseStep = {"decoder_sparse_step"};
inline constexpr ConfigKeys kDenseNumbers = {"mlp_only_layers"};
inline constexpr ConfigKeys kInterleaved = {"interleave_moe_layer_step", "moe_layer_frequency"};
inline constexpr ConfigKeys kLeadingDense = {"first_k_dense_replace", "num_dense_layers",
                                             "moe_layer_num_skipped", "first_last_k_dense_replace"};

// Attention: biases and norms, and what differs between layers.
inline constexpr ConfigKeys kAttentionBias = {"attention_bias"};
inline constexpr ConfigKeys kBias = {"use_bias"};
inline constexpr ConfigKeys kJoinedBias = {"qkv_bias"};  // of queries, keys and values
inline constexpr ConfigKeys kQueryKeyNorms = {"use_qk_norm"};
inline constexpr ConfigKeys kWindow = {"sliding_window", "sliding_window_size"};
inline constexpr ConfigKeys kChunk = {"attention_chunk_size"};
inline constexpr ConfigKeys kWindowHeadSize = {"swa_head_dim"};
inline constexpr ConfigKeys kWindowValueSize = {"swa_v_head_dim"};
inline constexpr ConfigKeys kWindowKeyHeads = {"swa_num_key_value_heads"};
inline constexpr ConfigKeys kOtherAttention = {"attention_other_setting"};
inline constexpr ConfigKeys kGlobalHeadSize = {"global_head_dim"};
inline constexpr ConfigKeys kGlobalKeyHeads = {"num_global_key_value_heads"};
inline constexpr ConfigKeys kSharedCaches = {"num_kv_shared_layers"};

// Latent attention, and its indexer.
inline constexpr ConfigKeys kUsesLatent = {"use_mla"};
inline constexpr ConfigKeys kQueryRank = {"q_lora_rank"};
inline constexpr ConfigKeys kLatentRank = {"kv_lora_rank"};
inline constexpr ConfigKeys kPlainPart = {"qk_nope_head_dim"};  // of a key, without positions
inline constexpr ConfigKeys kRopePart = {"qk_rope_head_dim"};
inline constexpr ConfigKeys kIndexHeads = {"index_n_heads"};
inline constexpr ConfigKeys kIndexSize = {"index_head_dim"};

// Indexers beside usual attention: Qwen3.8-Flash-Next's, and MiniMax-M3's in an object of its own.
inline constexpr ConfigKeys kOwnIndexSize = {"indexer_head_dim"};
inline constexpr ConfigKeys kSparseSettings = {"sparse_attention_config"};
inline constexpr ConfigKeys kSparseIndexSize = {"sparse_index_dim"};

// Linear attention.
inline constexpr ConfigKeys kLinearKeyHeads = {"linear_num_key_heads"};
inline constexpr ConfigKeys kLinearValueHeads = {"linear_num_value_heads"};
inline constexpr ConfigKeys kLinearKeySize = {"linear_key_head_dim"};
inline constexpr ConfigKeys kLinearValueSize = {"linear_value_head_dim"};
inline constexpr ConfigKeys kLinearKernel = {"linear_conv_kernel_dim"};
inline constexpr ConfigKeys kShortKernel = {"short_conv_kernel_size"};  // of KDA

// Short convolutions.
inline constexpr ConfigKeys kConvolutionKernel = {"conv_L_cache"};

// Mamba layers.
inline constexpr ConfigKeys kMambaState = {"ssm_state_size", "mamba_d_state"};
inline constexpr ConfigKeys kMambaKernel = {"conv_kernel", "mamba_d_conv"};
inline constexpr ConfigKeys kMambaHeads = {"mamba_num_heads", "mamba_n_heads"};
inline constexpr ConfigKeys kMambaHeadSize = {"mamba_head_dim", "mamba_d_head"};
inline constexpr ConfigKeys kMambaGroups = {"n_groups", "mamba_n_groups"};
inline constexpr ConfigKeys kMambaExpand = {"mamba_expand", "expand"};

// Rotary angles. HfConfig::Rope makes one object of them.
inline constexpr ConfigKeys kRope = {"rope_parameters", "rope_scaling"};
inline constexpr ConfigKeys kRopeType = {"rope_type"};
inline constexpr ConfigKeys kRopeBase = {"rope_theta"};
inline constexpr ConfigKeys kRotatedPart = {"partial_rotary_factor"};
inline constexpr ConfigKeys kOriginalContext = {"original_max_position_embeddings"};
inline constexpr ConfigKeys kLongFactors = {"long_factor"};
inline constexpr ConfigKeys kMultiplierAll = {"mscale_all_dim"};
inline constexpr ConfigKeys kSections = {"mrope_section"};
inline constexpr ConfigKeys kYarnFactor = {"attention_factor", "attn_factor"};

}  // namespace moepack::fields
