// Counts the experts of every layer by its tensors, and checks that each expert is complete.
#pragma once

#include <compare>
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

// Experts of a layer may be stored in several ways: some in packed codes, others as they were. What
// tells them apart is the leaf of the tensor that holds a weight's codes or numbers, and whether
// its type is that of plain numbers.
bool HoldsValues(std::string_view leaf);
bool IsPlainType(std::string_view dtype);

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
  // What the tensors of an expert are. The texts are in the family's or static storage.
  struct Kind {
    std::string_view role, leaf;
    bool plain = false;  // a weight in F32, F16 or BF16

    auto operator<=>(const Kind&) const = default;
  };
  using IdsOfKinds = std::map<Kind, std::vector<uint32_t>>;  // in order of appearance
  struct Layer {
    IdsOfKinds explicit_ids;
    uint64_t packed_bytes = 0;
    std::map<uint32_t, uint64_t> explicit_bytes;  // id -> bytes of all its tensors
    uint32_t packed_experts = 0;                  // length of the first packed tensor's expert axis
    std::string packed_where;                     // that tensor, for messages
    bool mtp = false;
  };

  Status AddExpert(const ModelTensor& tensor);
  Status AddPacked(const ModelTensor& tensor, Layer& layer);
  Result<uint32_t> CountExplicit(uint32_t number, const Layer& layer) const;
  Status CheckKind(uint32_t number, const Layer& layer, const Kind& kind) const;
  // The experts that must have a tensor, and its name in messages.
  struct Wanted {
    std::vector<uint32_t> experts;  // ascending
    std::string tensor;
  };
  Status CheckIds(uint32_t number, const Layer& layer, const Wanted& wanted,
                  std::vector<uint32_t> ids) const;
  Result<MoeLayer> Finish(uint32_t number, const Layer& layer) const;
  Status ResolveAxis(ModelTensor& tensor, uint32_t expert_count) const;
  bool IsAcross(const ModelTensor& tensor) const;
  std::string Where(const ModelTensor& tensor) const;
  std::string Place(uint32_t layer) const;
  static std::string Spell(const Kind& kind);  // "down.weight"
  // The kinds of a role that hold the codes or numbers of its weights. There are several if some
  // experts are stored in another way than the rest.
  static IdsOfKinds ValuesOf(const Layer& layer, std::string_view role);

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::vector<ModelTensor>& tensors_;
  std::map<uint32_t, Layer> layers_;
};

}  // namespace moepack
