// Layers of one kind have tensors of the same names. So a tensor that most of them have is missing
// where it is absent, and one that few have is extra.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

// ModelTensor::leaf, even where the family spells it out ("mlp.gate.weight").
std::string_view LeafOf(const MoeModel& model, const ModelTensor& tensor);
// "self_attn.q_proj" of "self_attn.q_proj.weight" with the leaf "weight", even where an underscore
// is before the leaf.
std::string_view WithoutLeaf(std::string_view name, std::string_view leaf);
// The last component of that.
std::string_view ModuleName(std::string_view name, std::string_view leaf);

class LayerNames {
 public:
  LayerNames(const MoeModel& model, const ModelPromise& promise)
      : model_(model), promise_(promise) {}

  // REQUIRES: tensor.layer. Companions of quantized weights do not count, and the first
  // explicit expert stands for all.
  void Add(const ModelTensor& tensor);
  void Check(std::vector<CheckFinding>& findings) const;

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

  // "moe " or "dense " as the tensors say, or as the config says for a layer that has neither.
  std::string FeedForwardOf(uint32_t number, const Layer& layer) const;
  // Layers by kind: feed-forward part and attention.
  std::map<std::string, ExpertIds> Kinds() const;
  std::string Spell(uint32_t name, uint32_t layer) const;
  void CheckKind(const ExpertIds& layers, std::vector<CheckFinding>& findings) const;
  // Whether a name that `count` of `all` layers have is one that all layers of the kind should
  // have.
  bool IsRule(size_t count, size_t all) const;
  bool IsException(size_t count, size_t all) const;

  const MoeModel& model_;
  const ModelPromise& promise_;
  std::vector<Name> names_;
  std::unordered_map<std::string, uint32_t> numbers_;  // normalized name -> index into names_
  std::map<uint32_t, Layer> layers_;
};

}  // namespace moepack
