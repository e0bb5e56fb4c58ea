// Compares the names of tensors between layers. Layers of one kind should have the same names, so a
// tensor that most of them have is missing from the others, and one that only a few of them have is
// extra.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/text_map.h"
#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

// Returns the leaf of a tensor, even if the family's row spells it out instead of using {W}
// ("mlp.gate.weight").
std::string_view LeafOf(const MoeModel& model, const ModelTensor& tensor);
// Returns "self_attn.q_proj" for "self_attn.q_proj.weight" with the leaf "weight". An underscore
// before the leaf is removed, too.
std::string_view WithoutLeaf(std::string_view name, std::string_view leaf);
// Returns the last component of that.
std::string_view ModuleName(std::string_view name, std::string_view leaf);

class LayerNames {
 public:
  LayerNames(const MoeModel& model, const ModelPromise& promise)
      : model_(model), promise_(promise) {}

  // Notes a tensor's name. Companions of quantized weights do not count, and the first explicit
  // expert represents all. REQUIRES: tensor.layer.
  void Add(const ModelTensor& tensor);
  void Check(std::vector<CheckFinding>& findings) const;
  // For GGUF, in which a block for multi-token prediction is a decoder layer with more tensors: it
  // has what all decoder layers have that have experts, too (or what all have, where it has none).
  void CheckMtpBlocks(std::vector<CheckFinding>& findings) const;

 private:
  struct Name {
    std::string before, after;  // the layer's number
    std::string leaf;           // of the first tensor of that name
    bool routed = false;        // of experts or their router
  };
  struct Layer {
    std::vector<uint32_t> names;
    std::string modules;  // those of its attention
    bool dense = false;
  };

  // Returns "moe " or "dense ", going by the layer's tensors, or by the config for a layer that has
  // neither.
  std::string FeedForwardOf(uint32_t number, const Layer& layer) const;
  // Groups the layers by kind: feed-forward part and attention.
  std::map<std::string, ExpertIds> Kinds() const;
  std::string Spell(uint32_t name, uint32_t layer) const;
  void CheckKind(const ExpertIds& layers, std::vector<CheckFinding>& findings) const;
  bool MayLack(const Name& name) const;
  // True if a name that `count` of `all` layers have should be in all of them.
  bool IsRule(size_t count, size_t all) const;
  bool IsException(size_t count, size_t all) const;

  const MoeModel& model_;
  const ModelPromise& promise_;
  std::vector<Name> names_;
  TextMap<std::string, uint32_t> numbers_;  // normalized name -> index into names_
  std::map<uint32_t, Layer> layers_;
};

}  // namespace moepack
