// The description of a family's converter, and the steps that all converters share. A family's file
// fills in the struct: a table of tensors and a few lines for its own keys.
#pragma once

#include <string_view>
#include <vector>

#include "libshard/convert/base_keys.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/convert/rope.h"
#include "libshard/convert/tensor_map.h"
#include "libshard/convert/tokenizers/special_tokens.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {

struct HfFamily {
  std::string_view architecture;  // general.architecture
  std::vector<TensorRow> rows;
  RopeSupport rope;
  // The names of the activation of feed-forward parts.
  std::vector<std::string_view> activations = {"silu", "swish"};
  bool needs_output = false;   // the runtime requires output.weight even if the head is tied
  bool own_types = false;      // TensorMapOptions::own_types
  bool eos_of_config = false;  // the end of a text is config.json's token, not the tokenizer's
  bool all_layers_moe = true;  // the architecture has no layers without experts
  // Blocks for multi-token prediction are kept as layers after the last (HfShape::mtp_layers).
  bool keeps_mtp = false;
  OwnKeys own_keys;      // base keys that `keys` writes
  std::string_view pre;  // the family's name for a pre-tokenizer that has several names
  // Sizes beyond heads and kv_heads that the table's orders and rules need.
  Status (*heads)(const HfConfig& config, HeadShape& shape) = nullptr;
  // Adds the family's own keys, and refuses what the family cannot convert.
  Status (*keys)(const HfConfig& config, const HfShape& shape, ArchKeys& keys) = nullptr;
  // Adds keys that are made from tensors: from the sources of rows that are keys, and from the
  // tensors of the GGUF.
  Status (*tensor_keys)(const MoeModel& model, const HfConfig& config,
                        const std::vector<GgufTensor>& tensors, ArchKeys& keys) = nullptr;
  // The rotary-angle factors of families that write all rope keys themselves.
  Result<std::vector<RopeTensor>> (*rope_tensors)(const HfConfig& config) = nullptr;
  // Checks what the config promises about several tensors together.
  Status (*check)(const HfConfig& config, const HfShape& shape,
                  const std::vector<GgufTensor>& tensors) = nullptr;
  bool lists_turn_end = false;  // SetTurnEnd
  // The texts of special tokens that are not identified in any other way.
  std::vector<SpecialText> special_texts;
  Result<Vocabulary> (*vocabulary)(const VocabularyRequest& request) = ReadBpe;
  // Adds tokenizer.* keys before the usual ones, which they override.
  Status (*tokenizer_keys)(const TokenizerFiles& files, const Vocabulary& vocabulary,
                           GgufMetadata& metadata) = nullptr;
};

// Adds the rows of embed_tokens, norm and lm_head.
void AddModelRows(HfFamily& family);
// The rows of a block's self-attention: the norm before it, and its projections.
struct AttentionRows {
  // How the rows of queries and keys are permuted for the runtime's rope.
  RowOrder query = RowOrder::kAsIs, key = RowOrder::kAsIs;
  bool biases = false;  // the runtime reads biases; otherwise a bias is refused
  const char* at = "layers.{L}.";
};
void AddAttentionRows(HfFamily& family, const AttentionRows& attention = {});
// Adds norms of queries and keys, for families that have them in every block.
void AddQueryKeyNormRows(HfFamily& family, const char* at = "layers.{L}.");
// The names of a block's experts below `at` ("layers.{L}.mlp.experts."): one tensor each, or the
// fused form of newer transformers, with gate above up and all experts in one tensor.
struct ExpertNames {
  const char* gate;
  const char* up;
  const char* down;
};
void AddExpertRows(HfFamily& family, const char* at, const ExpertNames& names);
void AddFusedExpertRows(HfFamily& family, const char* at);

// Runs the conversion. kUnsupported for a checkpoint of names only.
Result<GgufModel> ConvertHf(const MoeModel& model, const HfFamily& family,
                            const ConvertOptions& options);

}  // namespace moepack
