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

// The name in the family's table, with the numbers of layer and expert replaced by their tokens.
std::string PatternOf(std::string_view name, const ModelTensor& tensor, const Family& family) {
  size_t prefix = 0;
  for (const std::string& candidate : family.prefixes) {
    if (name.starts_with(candidate)) prefix = std::max(prefix, candidate.size());
  }
  const char* token = tensor.layer ? "{L}" : tensor.expert ? "{E}" : nullptr;
  std::string pattern;
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

std::vector<std::string> PatternsOf(const SplitName& name, const ModelTensor& tensor,
                                    const Family& family) {
  std::string plain = PatternOf(name.module, tensor, family);
  if (!name.dotted) return {std::move(plain)};
  std::string weight = plain;
  weight += kWeight;
  if (name.leaf == "weight") return {std::move(weight)};
  return {std::move(weight), std::move(plain)};
}

}  // namespace

Result<std::vector<WeightModule>> CollectWeights(const MoeModel& model) {
  std::vector<WeightModule> out;
  TextMap<std::string, size_t> by_name;
  by_name.reserve(model.tensors().size());
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    const SplitName name = SplitLeaf(entry.name, tensor.leaf);
    // "x" and "x.weight" are two weights, "x" and "x_blocks" are not.
    std::string key(name.module);
    if (name.dotted) key += '.';
    const auto [at, added] = by_name.emplace(std::move(key), out.size());
    if (added) out.push_back({StoredWeight(std::string(name.module)), &tensor, {}});
    WeightModule& module = out[at->second];
    if (!module.weight.Add(name.leaf, entry)) {
      return Error{Code::kCorrupt, Cat(model.checkpoint().files()[entry.file].path.string(),
                                       ": tensor ", Quoted(entry.name), ": expected one ",
                                       name.leaf, " of ", Quoted(name.module), ", found two")};
    }
    if (!added && module.weight.main() != &entry) continue;
    module.tensor = &tensor;
    module.patterns = PatternsOf(name, tensor, model.family());
  }
  std::erase_if(out, [](const WeightModule& module) { return module.weight.empty(); });
  return out;
}

}  // namespace moepack
