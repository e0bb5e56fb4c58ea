// What the Qwen families have in common: experts beside a shared expert with its own gate and, in
// the hybrid ones (Qwen3-Next, Qwen3.5), linear attention.
#pragma once

#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"

namespace moepack {

// mlp.{gate,experts,shared_expert,shared_expert_gate} of the blocks under `at` ("layers.{L}.").
void AddQwenMoeRows(HfFamily& family, const std::string& at);

// expert_feed_forward_length and expert_shared_feed_forward_length. The runtime would guess the
// first from the number of experts used, which changes on a node with fewer experts.
Status AddQwenMoeKeys(const HfConfig& config, ArchKeys& keys);

// The rows that Qwen3-Next and Qwen3.5 share: all but those of linear_attn that each stores in its
// own way. Their norms store the difference from one. Blocks have either linear or full attention,
// so the rows of both are optional.
void AddQwenHybridRows(HfFamily& family);
// The rows of linear_attn with a projection each (Qwen3.5): everything with one part per value head
// is stored grouped by key head, but the runtime needs it tiled.
void AddQwenTiledRows(HfFamily& family);
// Queries with their gates, keys, values, norms and output of full attention under `at`.
void AddQwenAttentionRows(HfFamily& family, const std::string& at);
// The sizes of linear attention; kUnsupported if those of keys and values differ.
Status ReadQwenHybridHeads(const HfConfig& config, HeadShape& shape);
// ssm.*, full_attention_interval, attention.recurrent_layers, rope.dimension_count.
Status AddQwenHybridKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys);
// kCorrupt unless every block has the tensors of its kind of attention and none of the other kind,
// as the runtime requires.
Status CheckQwenHybridBlocks(const HfConfig& config, const HfShape& shape,
                             const std::vector<GgufTensor>& tensors);

// What the runtime must know of the hybrid ones.
void FillQwenHybrid(SpecKeys& keys, ModelSpec& spec);

// transformers' Qwen3NextConfig and Qwen3_5MoeTextConfig.
inline constexpr std::string_view kQwenHybrid =
    R"({"head_dim": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "partial_rotary_factor": 0.25, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512})";

}  // namespace moepack
