// Parameters as people count them: "30B-A3B" means weights, however they are stored.
#include <map>
#include <utility>

#include "libshard/model/model.h"

namespace moepack {
namespace {

// What nearly all packed checkpoints have, for a config that does not say.
constexpr uint64_t kDefaultPackedBits = 4;

// Counts integers of `bits` bits that are packed into words (GPTQ, AWQ, compressed-tensors, MLX).
uint64_t UnpackedIntegers(const TensorEntry& entry, uint32_t bits) {
  return entry.bytes * 8 / (bits == 0 ? kDefaultPackedBits : bits);
}

// True for 4-bit floats, two per byte. Only config.json names their type; the header calls them
// integers.
bool HoldsPairs(const ModelTensor& tensor, const TensorEntry& entry, const ModelConfig& config) {
  if (entry.dtype == "U8") {
    return UseOfLeaf(tensor.leaf) == LeafUse::kPacked ||
           config.quant_method.starts_with("modelopt") ||
           config.quant_method == "compressed-tensors";
  }
  // DeepSeek-V4 stores FP4 experts as I8 beside FP8 ones; only the halved rows distinguish them
  // from int8.
  if (entry.dtype != "I8" || tensor.part != Part::kExpert || entry.shape.empty()) return false;
  const bool down = tensor.rule != nullptr && tensor.rule->role == "down";
  const uint64_t row = down ? config.expert_intermediate_size : config.hidden_size;
  return row > 0 && entry.shape.back() * 2 == row;
}

uint64_t Weights(const ModelTensor& tensor, const TensorEntry& entry, const ModelConfig& config) {
  const LeafUse use = UseOfLeaf(tensor.leaf);
  if (use == LeafUse::kCompanion) return 0;
  if (tensor.rule != nullptr && tensor.rule->holds_expert_ids) return 0;
  if (entry.dtype == "U32") return UnpackedIntegers(entry, config.quant_bits);
  if (entry.dtype == "I32" && use == LeafUse::kPacked)
    return UnpackedIntegers(entry, config.quant_bits);
  // These are buffers such as position ids and masks.
  if (entry.dtype == "I32" || entry.dtype == "I64" || entry.dtype == "BOOL") return 0;
  return HoldsPairs(tensor, entry, config) ? entry.bytes * 2 : entry.Elements();
}

bool IsOtherModality(const ModelTensor& tensor) {
  return tensor.rule != nullptr && (tensor.rule->role == "vision" || tensor.rule->role == "audio");
}

// True for the one matrix with that role outside layers, and false for its bias and companions.
bool IsTable(const ModelTensor& tensor, const TensorEntry& entry, std::string_view role) {
  return tensor.rule != nullptr && tensor.rule->role == role && !tensor.layer &&
         entry.shape.size() == 2;
}

// The share of a layer's expert weights that one token uses. Dividing first avoids an overflow, and
// the remainder is handled separately.
uint64_t ActiveShare(uint64_t weights, const MoeLayer& layer) {
  return weights / layer.expert_count * layer.top_k +
         weights % layer.expert_count * layer.top_k / layer.expert_count;
}

}  // namespace

ParameterCount CountParameters(const MoeModel& model) {
  ParameterCount count;
  if (model.checkpoint().names_only()) return count;
  std::map<std::optional<uint32_t>, uint64_t> routed;  // layer -> weights of all its experts
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    const uint64_t weights = Weights(tensor, entry, model.config());
    if (IsOtherModality(tensor)) {
      count.other_modalities += weights;
    } else if (tensor.mtp) {
      count.mtp += weights;
    } else {
      count.total += weights;
      (tensor.part == Part::kExpert ? routed[tensor.layer] : count.active) += weights;
      if (IsTable(tensor, entry, "embedding")) count.input_embedding += weights;
      if (IsTable(tensor, entry, "head")) count.head += weights;
    }
  }
  // Tied: the single table also produces the logits, so it counts as the head.
  if (count.head == 0) std::swap(count.head, count.input_embedding);
  for (const MoeLayer& layer : model.layers()) {
    if (layer.mtp) continue;
    // One layer of unknown top-k makes the count of active weights unknown, so it is left at 0.
    if (layer.top_k == 0) {
      count.active = 0;
      break;
    }
    count.active += ActiveShare(routed[layer.layer], layer);
  }
  return count;
}

}  // namespace moepack
