// What the Qwen families have in common: experts beside a shared expert with its own gate and, in
// the hybrid ones (Qwen3-Next, Qwen3.5), linear attention.
#pragma once

#include "libshard/convert/hf_family.h"

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
// The sizes of linear attention; kUnsupported if those of keys and values differ.
Status ReadQwenHybridHeads(const HfConfig& config, HeadShape& shape);
// ssm.*, full_attention_interval, attention.recurrent_layers, rope.dimension_count.
Status AddQwenHybridKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys);
// kCorrupt unless every block has the tensors of its kind of attention and none of the other kind,
// as the runtime requires.
Status CheckQwenHybridBlocks(const HfConfig& config, const HfShape& shape,
                             const std::vector<GgufTensor>& tensors);

}  // namespace moepack
