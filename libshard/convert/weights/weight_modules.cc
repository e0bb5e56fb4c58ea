#include "libshard/convert/weights/weight_modules.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"

namespace moepack {
namespace {

constexpr std::string_view kWeight = ".weight";

// A tensor's name as module and leaf: "gate_proj" and "weight_scale" of "gate_proj.weight_scale",
// "gate_up_proj" and "blocks" of "gate_up_proj_blocks". A bias is a module of its own.
struct SplitName {
  std::string_view module, leaf;
  bool dotted = false;  // the leaf, if there is one, came after a dot
};

SplitName SplitLeaf(std::string_view name, std::string_view leaf) {
  if (leaf.empty() && name.ends_with(kWeight)) leaf = kWeight.substr(1);
  if (leaf.empty() || leaf == "bias") return {name, "", false};
  const std::string_view before = name.substr(0, name.size() - leaf.size());
  return {before.substr(0, before.size() - 1), leaf, before.ends_with('.')};
}

// What a router's rows spell out is a leaf, too.
std::string_view LeafIn(const ModelTensor& tensor) {
  const bool router = tensor.part == Part::kRouter && tensor.rule->role == "router";
  return router ? LeafOf(*tensor.rule, tensor.leaf) : tensor.leaf;
}

// The name in the family's table, with the numbers of layer and expert replaced by their tokens.
std::string PatternOf(std::string_view name, const ModelTensor& tensor, const Family& family) {
  size_t prefix = 0;
  for (const std::string& candidate : family.prefixes) {
    if (name.starts_with(candidate)) prefix = std::max(prefix, candidate.size());
  }
  const char* token = tensor.layer ? "{L}" : tensor.expert ? "{E}" : nullptr;
  std::string pattern;
  pattern.reserve(name.size());
  for (std::string_view rest = name.substr(prefix);;) {
    const size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (token != nullptr && ParseUint(part)) {
      pattern += token;
      token = token == std::string_view("{L}") && tensor.expert ? "{E}" : nullptr;
    } else {
      pattern += part;
    }
    if (end == rest.size()) return pattern;
    pattern += '.';
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

Result<std::vector<WeightModule>> CollectWeights(const MoeModel& model) {
  constexpr uint32_t kNone = UINT32_MAX;
  const size_t tensor_count = model.tensors().size();
  std::vector<WeightModule> out;
  std::vector<std::string_view> keys;
  out.reserve(tensor_count);
  keys.reserve(tensor_count);
  ProbeTable<uint32_t> by_key(kNone, tensor_count);
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    const SplitName name = SplitLeaf(entry.name, LeafIn(tensor));
    // "x" and "x.weight" are two weights, "x" and "x_blocks" are not.
    const std::string_view key =
        std::string_view(entry.name).substr(0, name.module.size() + (name.dotted ? 1 : 0));
    uint32_t& slot = by_key.Slot(HashOf(key), [&](uint32_t at) { return keys[at] == key; });
    if (by_key.IsFree(slot)) {
      slot = static_cast<uint32_t>(out.size());
      keys.push_back(key);
      out.push_back({StoredWeight(name.module), &tensor});
    }
    WeightModule& module = out[slot];
    if (!module.weight.Add(name.leaf, entry)) {
      return Error{Code::kCorrupt, Cat(model.checkpoint().files()[entry.file].path.string(),
                                       ": tensor ", Quoted(entry.name), ": expected one ",
                                       name.leaf, " of ", Quoted(name.module), ", found two")};
    }
    if (module.weight.main() == &entry) module.tensor = &tensor;
  }
  std::erase_if(out, [](const WeightModule& module) { return module.weight.empty(); });
  return out;
}

std::vector<std::string> PatternsOf(const MoeModel& model, const WeightModule& module) {
  const ModelTensor& tensor = *module.tensor;
  const SplitName name = SplitLeaf(model.entry(tensor).name, LeafIn(tensor));
  std::string plain = PatternOf(name.module, tensor, model.family());
  std::vector<std::string> patterns;
  if (name.dotted) patterns.push_back(Cat(plain, kWeight));
  if (!name.dotted || name.leaf != "weight") patterns.push_back(std::move(plain));
  return patterns;
}

}  // namespace moepack
