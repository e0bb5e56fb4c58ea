// Kimi delta attention (KDA) in most layers and latent attention in the others, as Ling 3.0 and
// Kimi-K3 have them: what their conversions share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/hf_family.h"
#include "libshard/graph/model_spec.h"

namespace moepack {

// The numbers of the layers with KDA. kUnsupported if the config names any kind of layer but the
// two.
Result<std::vector<uint32_t>> KdaLayers(const HfConfig& config);

// Adds a row that only those layers have.
void AddKdaRow(HfFamily& family, const std::vector<uint32_t>& kda, const std::string& source,
               const std::string& target, ValueRule rule = ValueRule::kNone);
// The rows that both families have, under the same names below `at` ("layers.{L}.self_attn."):
// queries, keys and values, each with a short convolution; the strength of writing, the bias of the
// decay, and the norm of the result.
void AddKdaRows(HfFamily& family, const std::vector<uint32_t>& kda, const std::string& at);

struct KdaSizes {
  uint32_t kernel = 0, head_size = 0;
  float lower_bound = 0;  // of the decay's logarithm
};
// Adds the sizes, and attention.head_count_kv, by which the runtime tells the kinds apart: 0 for a
// block with KDA, 1 for latent attention. Blocks for multi-token prediction have the latter.
void AddKdaKeys(const KdaSizes& sizes, const std::vector<uint32_t>& kda, const HfShape& shape,
                ArchKeys& keys);

// What the runtime must know of layers with KDA: their sizes, and which they are.
void FillKda(SpecKeys& keys, ModelSpec& spec);

}  // namespace moepack
