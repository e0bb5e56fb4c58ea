// Counts the experts of every layer by its tensors, and checks that each expert is complete.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace moepack {

// Returns the index of a rule's expert axis in `shape`, where -1 counts from the end. No value if
// the rule has no expert axis or the shape is too short for it.
std::optional<uint32_t> AxisIn(const std::vector<uint64_t>& shape, std::optional<int> axis);

// Used while a MoeModel is built: `model` has its checkpoint, config and classified tensors, and
// gets the resolved expert axes. Errors are kCorrupt and name file, tensor or expert, expected and
// found.
class LayerExpertTable {
 public:
  LayerExpertTable(const Checkpoint& checkpoint, const ModelConfig& config,
                   std::vector<ModelTensor>& tensors)
      : checkpoint_(checkpoint), config_(config), tensors_(tensors) {}

  // Counts experts per layer, and checks that explicit ones are complete and that expert axes fit.
  Result<std::vector<MoeLayer>> Collect();

 private:
  // An expert has one tensor of each kind: role and leaf, both in the family's or static storage.
  using Kind = std::pair<std::string_view, std::string_view>;
  struct Layer {
    std::map<Kind, std::vector<uint32_t>> explicit_ids;  // in order of appearance
    uint64_t packed_bytes = 0;
    std::map<uint32_t, uint64_t> explicit_bytes;  // id -> bytes of all its tensors
    uint32_t packed_experts = 0;                  // length of the first packed tensor's expert axis
    std::string packed_where;                     // that tensor, for messages
    bool mtp = false;
  };

  Status AddExpert(const ModelTensor& tensor);
  Status AddPacked(const ModelTensor& tensor, Layer& layer);
  Result<uint32_t> CountExplicit(uint32_t number, const Layer& layer) const;
  Result<MoeLayer> Finish(uint32_t number, const Layer& layer) const;
  Status ResolveAxis(ModelTensor& tensor, uint32_t expert_count) const;
  std::string Where(const ModelTensor& tensor) const;
  std::string Place(uint32_t layer) const;
  static std::string Spell(const Kind& kind);  // "down.weight"

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::vector<ModelTensor>& tensors_;
  std::map<uint32_t, Layer> layers_;
};

}  // namespace moepack
