#include "libshard/model/layer_experts.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "libshard/base/limits.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// True for a scale that all experts of a packed tensor share. It has no expert axis, whatever the
// rule says.
bool IsOneForAll(const TensorEntry& entry, const Checkpoint& checkpoint) {
  return !checkpoint.names_only() && entry.Elements() == 1;
}

}  // namespace

bool HoldsValues(std::string_view leaf) {
  return leaf != "bias" && UseOfLeaf(leaf) != LeafUse::kCompanion;
}

bool IsPlainType(std::string_view dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

std::optional<uint32_t> AxisIn(const std::vector<uint64_t>& shape, std::optional<int> axis) {
  if (!axis) return std::nullopt;
  const auto dimensions = static_cast<int>(shape.size());
  const int resolved = *axis < 0 ? dimensions + *axis : *axis;
  if (resolved < 0 || resolved >= dimensions) return std::nullopt;
  return static_cast<uint32_t>(resolved);
}

std::string LayerExpertTable::Where(const ModelTensor& tensor) const {
  const TensorEntry& entry = checkpoint_.tensors()[tensor.index];
  return Cat(checkpoint_.files()[entry.file].path.string(), ": tensor ", Quoted(entry.name));
}

Status LayerExpertTable::AddPacked(const ModelTensor& tensor, Layer& layer) {
  const TensorEntry& entry = checkpoint_.tensors()[tensor.index];
  layer.packed_bytes += entry.bytes;
  if (layer.packed_experts != 0 || IsOneForAll(entry, checkpoint_)) return Ok();
  layer.packed_where = Where(tensor);
  if (checkpoint_.names_only() || tensor.rule->folded) {
    layer.packed_experts = config_.expert_count;
    return Ok();
  }
  const auto axis = AxisIn(entry.shape, tensor.rule->expert_axis);
  const uint64_t length = axis ? entry.shape[*axis] : 0;
  if (length == 0 || length > kMaxExpertsPerLayer) {
    return Error{Code::kCorrupt, Cat(Where(tensor), ": expert axis ", *tensor.rule->expert_axis,
                                     " of shape ", FormatShape(entry.shape), ": expected 1 to ",
                                     kMaxExpertsPerLayer, " experts, found ", length)};
  }
  layer.packed_experts = static_cast<uint32_t>(length);
  return Ok();
}

Status LayerExpertTable::AddExpert(const ModelTensor& tensor) {
  if (!tensor.layer) {
    return Error{Code::kUnsupported, Cat(Where(tensor),
                                         ": expected a layer number in the name of "
                                         "an expert's tensor, found none")};
  }
  Layer& layer = layers_[*tensor.layer];
  layer.mtp = layer.mtp || tensor.mtp;
  if (tensor.packed_expert()) return AddPacked(tensor, layer);
  const uint32_t expert = *tensor.expert;
  if (expert >= kMaxExpertsPerLayer) {
    return Error{Code::kCorrupt, Cat(Where(tensor), ": expert: expected an id below ",
                                     kMaxExpertsPerLayer, ", found ", expert)};
  }
  const TensorEntry& entry = checkpoint_.tensors()[tensor.index];
  const bool plain = HoldsValues(tensor.leaf) && IsPlainType(entry.dtype);
  layer.explicit_ids[{tensor.rule->role, tensor.leaf, plain}].push_back(expert);
  layer.explicit_bytes[expert] += entry.bytes;
  return Ok();
}

std::string LayerExpertTable::Place(uint32_t layer) const {
  return Cat(checkpoint_.source().string(), ": layer ", layer, ": ");
}

std::string LayerExpertTable::Spell(const Kind& kind) {
  return kind.leaf.empty() ? std::string(kind.role) : Cat(kind.role, ".", kind.leaf);
}

LayerExpertTable::IdsOfKinds LayerExpertTable::ValuesOf(const Layer& layer, std::string_view role) {
  IdsOfKinds values;
  for (const auto& [kind, ids] : layer.explicit_ids) {
    if (kind.role == role && HoldsValues(kind.leaf)) values.emplace(kind, ids);
  }
  return values;
}

// Every wanted expert must have exactly one tensor. `ids` has no others.
Status LayerExpertTable::CheckIds(uint32_t number, const Layer& layer, const Wanted& wanted,
                                  std::vector<uint32_t> ids) const {
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < wanted.experts.size(); ++i) {
    const uint32_t id = wanted.experts[i];
    if (i < ids.size() && ids[i] == id) continue;
    const bool twice = i < ids.size() && ids[i] < id;
    return Error{Code::kCorrupt,
                 Cat(Place(number), "expert ", twice ? ids[i] : id, ": expected one tensor ",
                     wanted.tensor, ", found ", twice ? "two" : "none", " (the layer's ids reach ",
                     layer.explicit_bytes.rbegin()->first, ")"),
                 twice ? "" : "if this is one shard of several, name its directory instead"};
  }
  if (ids.size() == wanted.experts.size()) return Ok();
  return Error{Code::kCorrupt, Cat(Place(number), "expert ", ids.back(), ": expected one tensor ",
                                   wanted.tensor, ", found two")};
}

// Where all experts are stored alike, each of them has a tensor of the kind. Otherwise an expert
// has values in one form, and companions go with all experts of a form or with none.
Status LayerExpertTable::CheckKind(uint32_t number, const Layer& layer, const Kind& kind) const {
  const std::vector<uint32_t>& ids = layer.explicit_ids.at(kind);
  const IdsOfKinds values = ValuesOf(layer, kind.role);
  Wanted wanted{std::vector<uint32_t>(layer.explicit_bytes.rbegin()->first + 1), Spell(kind)};
  std::iota(wanted.experts.begin(), wanted.experts.end(), 0);
  if (values.size() < 2 || kind.leaf == "bias") return CheckIds(number, layer, wanted, ids);
  if (HoldsValues(kind.leaf)) {
    if (kind != values.begin()->first) return Ok();  // checked with the first
    std::vector<uint32_t> all;
    for (const auto& [other, others] : values) all.insert(all.end(), others.begin(), others.end());
    return CheckIds(number, layer, wanted, std::move(all));
  }
  for (const auto& [form, members] : values) {
    wanted = {members, Spell(kind)};
    std::sort(wanted.experts.begin(), wanted.experts.end());
    std::vector<uint32_t> theirs;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(theirs), [&](uint32_t id) {
      return std::binary_search(wanted.experts.begin(), wanted.experts.end(), id);
    });
    if (!theirs.empty()) SHARD_CHECK(CheckIds(number, layer, wanted, std::move(theirs)));
  }
  return Ok();
}

// Counts the explicit experts, whose ids are 0 ... n-1. Tensors that do not affect the weights'
// numbers may be missing, since calibration writes none for experts that it never reached.
Result<uint32_t> LayerExpertTable::CountExplicit(uint32_t number, const Layer& layer) const {
  for (const auto& [kind, unsorted] : layer.explicit_ids) {
    if (AffectsNumbers(kind.leaf)) {
      SHARD_CHECK(CheckKind(number, layer, kind));
      continue;
    }
    std::vector<uint32_t> ids = unsorted;
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) continue;
    return Error{Code::kCorrupt, Cat(Place(number), "expert ", *twice, ": expected one tensor ",
                                     Spell(kind), ", found two")};
  }
  return layer.explicit_bytes.rbegin()->first + 1;
}

Result<MoeLayer> LayerExpertTable::Finish(uint32_t number, const Layer& layer) const {
  MoeLayer out{.layer = number, .expert_count = layer.packed_experts, .mtp = layer.mtp};
  if (!layer.explicit_bytes.empty()) {
    SHARD_TRY(out.expert_count, CountExplicit(number, layer));
    for (const auto& [id, bytes] : layer.explicit_bytes) {
      out.expert_bytes = std::max(out.expert_bytes, bytes);
    }
    if (layer.packed_experts != 0 && layer.packed_experts != out.expert_count) {
      return Error{Code::kCorrupt,
                   Cat(layer.packed_where, ": expected ", Plural(out.expert_count, "expert"),
                       " as layer ", number, " has, found ", layer.packed_experts)};
    }
  }
  if (out.expert_count == 0) {
    return Error{Code::kUnsupported, Cat(layer.packed_where,
                                         ": expected a config.json that says how many experts are "
                                         "packed here, found none")};
  }
  out.expert_bytes += layer.packed_bytes / out.expert_count;
  return out;
}

Status LayerExpertTable::ResolveAxis(ModelTensor& tensor, uint32_t expert_count) const {
  const TensorEntry& entry = checkpoint_.tensors()[tensor.index];
  const auto axis = AxisIn(entry.shape, tensor.rule->expert_axis);
  const uint64_t length = axis ? entry.shape[*axis] : 0;
  const bool fits =
      tensor.rule->folded ? length > 0 && length % expert_count == 0 : length == expert_count;
  if (!fits) {
    return Error{Code::kCorrupt, Cat(Where(tensor), ": axis ", *tensor.rule->expert_axis,
                                     " of shape ", FormatShape(entry.shape), ": expected ",
                                     tensor.rule->folded ? "a multiple of " : "", expert_count,
                                     " (experts of layer ", *tensor.layer, "), found ", length)};
  }
  tensor.axis = axis;
  return Ok();
}

// GPTQ, AWQ and AutoRound store a router's scales across: [groups, experts].
bool LayerExpertTable::IsAcross(const ModelTensor& tensor) const {
  constexpr std::string_view kScales = "scales";
  const std::string_view name = checkpoint_.tensors()[tensor.index].name;
  if (tensor.part != Part::kRouter || !name.ends_with(kScales)) return false;
  return checkpoint_.Find(Cat(name.substr(0, name.size() - kScales.size()), "qweight")) != nullptr;
}

Result<std::vector<MoeLayer>> LayerExpertTable::Collect() {
  for (const ModelTensor& tensor : tensors_) {
    if (tensor.part == Part::kExpert) SHARD_CHECK(AddExpert(tensor));
  }
  std::vector<MoeLayer> out;
  uint64_t total = 0;
  for (const auto& [number, layer] : layers_) {
    SHARD_TRY(MoeLayer finished, Finish(number, layer));
    total += finished.expert_count;
    out.push_back(finished);
  }
  if (total > kMaxExpertsInAll) {
    return Error{Code::kUnsupported,
                 Cat(checkpoint_.source().string(), ": experts: expected at most ",
                     kMaxExpertsInAll, " in all layers together, found ", total)};
  }
  if (checkpoint_.names_only()) return out;
  LayerCounts counts;
  for (const MoeLayer& layer : out) counts[layer.layer] = layer.expert_count;
  for (ModelTensor& tensor : tensors_) {
    if (!tensor.rule->expert_axis || tensor.expert || !tensor.layer || IsAcross(tensor)) continue;
    const auto layer = counts.find(*tensor.layer);
    const bool one = IsOneForAll(checkpoint_.tensors()[tensor.index], checkpoint_);
    if (layer != counts.end() && !(one && layer->second > 1))
      SHARD_CHECK(ResolveAxis(tensor, layer->second));
  }
  return out;
}

}  // namespace moepack
