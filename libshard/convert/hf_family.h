// What a family's converter says about itself, and the steps that all of them share. A family's
// file fills in the struct: a table of tensors and a few lines for its own keys.
#pragma once

#include <string_view>
#include <vector>

#include "libshard/convert/arch_keys.h"
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
  bool needs_output = false;   // the runtime asks for output.weight also where it is tied
  bool all_layers_moe = true;  // the architecture has no layers without experts
  // Keeps the blocks for multi-token prediction, as layers after the last (HfShape::mtp_layers).
  bool keeps_mtp = false;
  // A JSON object: fields of config.json that may be left out, as transformers fills them in.
  std::string_view defaults;
  std::string_view pre;  // the family's name of a pre-tokenizer that has several
  // Sizes beyond heads and kv_heads that the table's orders and rules need.
  Status (*heads)(const HfConfig& config, HeadShape& shape) = nullptr;
  // The family's own keys, and what it has to refuse.
  Status (*keys)(const HfConfig& config, const HfShape& shape, ArchKeys& keys) = nullptr;
  // What the config promises about the tensors beyond single rows.
  Status (*check)(const HfConfig& config, const HfShape& shape,
                  const std::vector<GgufTensor>& tensors) = nullptr;
  // Special tokens by their text, where nothing else says which they are.
  std::vector<SpecialText> special_texts;
  Result<Vocabulary> (*vocabulary)(const VocabularyRequest& request) = ReadBpe;
  // tokenizer.* keys that go before the usual ones and overrule them.
  Status (*tokenizer_keys)(const TokenizerFiles& files, GgufMetadata& metadata) = nullptr;
};

// embed_tokens, norm, lm_head.
void AddModelRows(HfFamily& family);
// The norm before a block's self-attention and its projections.
struct AttentionRows {
  // How the rows of queries and keys are permuted for the runtime's rope.
  RowOrder query = RowOrder::kAsIs, key = RowOrder::kAsIs;
  bool biases = false;  // the runtime takes them; otherwise one is refused
};
void AddAttentionRows(HfFamily& family, const AttentionRows& attention = {});
// Norms of queries and keys, in families that have them in every block.
void AddQueryKeyNormRows(HfFamily& family);
// Experts of a block, one tensor each, under `at` ("layers.{L}.mlp.experts."), and the fused form
// in which newer transformers save them: gate and up above each other, all experts in one tensor.
struct ExpertNames {
  const char* gate;
  const char* up;
  const char* down;
};
void AddExpertRows(HfFamily& family, const char* at, const ExpertNames& names);
void AddFusedExpertRows(HfFamily& family, const char* at);

// Runs the steps. kUnsupported for a checkpoint of names only.
Result<GgufModel> ConvertHf(const MoeModel& model, const HfFamily& family,
                            const ConvertOptions& options);

}  // namespace moepack
