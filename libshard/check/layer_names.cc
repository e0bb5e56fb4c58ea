#include "libshard/check/layer_names.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/model/family_match.h"
#include "libshard/model/gguf_architectures.h"

namespace moepack {
namespace {

// Returns the position of the first component that is `number`; npos if there is none.
size_t FindNumber(std::string_view name, const std::string& number) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    if (name.substr(at, end - at) == number) return at;
    at = end + 1;
  }
  return std::string_view::npos;
}

bool IsAttention(const ModelTensor& tensor) {
  return tensor.rule->role == "attention" || tensor.rule->role == "mamba";
}

// Returns "self_attn" for "self_attn.q_proj.weight". Names in GGUF have only one component, so
// there it is the part before the underscore.
std::string AttentionModule(std::string_view after, bool gguf) {
  return std::string(after.substr(0, after.find(gguf ? '_' : '.')));
}

}  // namespace

std::string_view LeafOf(const MoeModel& model, const ModelTensor& tensor) {
  if (!tensor.leaf.empty()) return tensor.leaf;
  const std::string_view name = model.entry(tensor).name;
  const WeightLeaf* leaf = FindLeaf(name.substr(name.rfind('.') + 1));
  return leaf == nullptr ? std::string_view() : leaf->name;
}

std::string_view WithoutLeaf(std::string_view name, std::string_view leaf) {
  const bool ends = !leaf.empty() && name.size() > leaf.size() && name.ends_with(leaf);
  return ends ? name.substr(0, name.size() - leaf.size() - 1) : name;
}

std::string_view ModuleName(std::string_view name, std::string_view leaf) {
  const std::string_view module = WithoutLeaf(name, leaf);
  return module.substr(module.rfind('.') + 1);
}

void LayerNames::Add(const ModelTensor& tensor) {
  // Single layers have such an embedding, whatever their kind.
  if (tensor.rule->role == "layer_embedding") return;
  const std::string_view leaf = LeafOf(model_, tensor);
  if (UseOfLeaf(leaf) == LeafUse::kCompanion || tensor.expert.value_or(0) > 0) return;
  const std::string& name = model_.entry(tensor).name;
  const uint32_t number = *tensor.layer;
  const size_t decoder = promise_.layers.size();
  // Blocks for multi-token prediction may be numbered separately.
  std::string digits = Cat(number);
  size_t at = FindNumber(name, digits);
  if (at == std::string_view::npos && number >= decoder) {
    digits = Cat(number - decoder);
    at = FindNumber(name, digits);
  }
  if (at == std::string_view::npos) return;
  const bool bias = leaf == "bias";
  const std::string before = name.substr(0, at);
  const std::string_view module = bias ? std::string_view(name) : WithoutLeaf(name, leaf);
  const std::string after(module.substr(std::min(module.size(), at + digits.size())));
  const auto [known, added] =
      numbers_.try_emplace(before + "#" + after, static_cast<uint32_t>(names_.size()));
  if (added) {
    const bool routed = tensor.part == Part::kExpert || tensor.part == Part::kRouter;
    names_.push_back({before, after, bias ? "" : std::string(leaf), routed});
  }
  Layer& layer = layers_[number];
  layer.names.push_back(known->second);
  layer.dense = layer.dense || tensor.rule->role == "dense_mlp";
  if (!IsAttention(tensor) || after.size() < 2) return;
  const std::string attention =
      AttentionModule(std::string_view(after).substr(1), model_.checkpoint().is_gguf()) + " ";
  if (layer.modules.find(attention) == std::string::npos) layer.modules += attention;
}

std::string LayerNames::Spell(uint32_t name, uint32_t layer) const {
  const Name& parts = names_[name];
  const bool own = parts.before.find("mtp.") != std::string::npos;
  const uint32_t number = own ? layer - static_cast<uint32_t>(promise_.layers.size()) : layer;
  const std::string leaf = parts.leaf.empty() ? "" : "." + parts.leaf;
  return Cat("tensor ", Quoted(Cat(parts.before, number, parts.after, leaf)));
}

std::string LayerNames::FeedForwardOf(uint32_t number, const Layer& layer) const {
  if (model_.FindLayer(number) != nullptr) return "moe ";
  const bool decoder = number < promise_.layers.size();
  return !layer.dense && decoder && promise_.layers[number].moe.value_or(false) ? "moe " : "dense ";
}

// The kind of attention is the config's name for it, or otherwise the modules it consists of.
// model_check.cc also compares the modules with the config. A layer that has lost all of them
// counts as one of the most common kind.
std::map<std::string, ExpertIds> LayerNames::Kinds() const {
  std::map<std::string, std::map<std::string, size_t>> modules;  // by feed-forward part
  for (const auto& [number, layer] : layers_) {
    if (!layer.modules.empty()) ++modules[FeedForwardOf(number, layer)][layer.modules];
  }
  std::map<std::string, ExpertIds> kinds;
  for (const auto& [number, layer] : layers_) {
    std::string kind = FeedForwardOf(number, layer);
    const auto& common = modules[kind];
    if (number >= promise_.layers.size()) {
      kind += "mtp";
    } else if (!promise_.linear_attention && !promise_.layers[number].attention.empty()) {
      kind += promise_.layers[number].attention;
    } else if (!layer.modules.empty()) {
      kind += layer.modules;
    } else if (!common.empty()) {
      kind += std::max_element(common.begin(), common.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
    }
    kinds[kind].push_back(number);
  }
  return kinds;
}

// Some full-attention layers of Gemma 4 read values from the keys, several layers of GLM-5.2 share
// the indexer of one, and layers of DeepSeek-V4 need no compressed keys and, if they route by the
// token's id, no bias (llama.cpp, src/models). Opening a model compares the biases.
bool LayerNames::MayLack(const Name& name) const {
  if (!model_.checkpoint().is_gguf()) return false;
  const std::string& architecture = model_.config().architecture;
  // Which kinds of layers an unknown architecture has is not known.
  if (FindArchitecture(architecture) == nullptr && !name.routed) return true;
  return name.after.starts_with(".indexer.") ||
         (name.after == ".attn_v" && architecture == "gemma4") ||
         (architecture == "deepseek4" &&
          (name.after.starts_with(".attn_compressor_") || name.after.starts_with(".exp_probs_b")));
}

bool LayerNames::IsRule(size_t count, size_t all) const {
  if (model_.checkpoint().is_gguf()) return all >= 3 && count + 1 == all;
  return count * 4 >= all * 3 || count + 1 == all;
}

bool LayerNames::IsException(size_t count, size_t all) const {
  return !model_.checkpoint().is_gguf() && !IsRule(count, all) && (count * 4 <= all || count == 1);
}

void LayerNames::CheckKind(const ExpertIds& layers, std::vector<CheckFinding>& findings) const {
  std::map<uint32_t, ExpertIds> holders;
  for (const uint32_t layer : layers) {
    for (const uint32_t name : layers_.at(layer).names) {
      ExpertIds& ids = holders[name];
      if (ids.empty() || ids.back() != layer) ids.push_back(layer);
    }
  }
  for (const auto& [name, having] : holders) {
    if (having.size() == layers.size()) continue;
    const std::string others = Cat(LayersText(having), having.size() == 1 ? " has" : " have");
    if (IsRule(having.size(), layers.size())) {
      for (const uint32_t layer : Difference(layers, having)) {
        // model_check.cc reports such a layer once, instead of each of its tensors.
        if (names_[name].routed && model_.FindLayer(layer) == nullptr) continue;
        if (MayLack(names_[name])) continue;
        findings.push_back({FindingKind::kMissing, Spell(name, layer),
                            Cat("one as ", others, ", of the same kind"), "none"});
      }
    } else if (IsException(having.size(), layers.size())) {
      for (const uint32_t layer : having) {
        findings.push_back(
            {FindingKind::kExtra, Spell(name, layer),
             Cat("none as in ", LayersText(Difference(layers, having)), ", of the same kind"),
             "one"});
      }
    }
  }
}

void LayerNames::CheckMtpBlocks(std::vector<CheckFinding>& findings) const {
  const auto block = layers_.lower_bound(static_cast<uint32_t>(promise_.layers.size()));
  for (auto at = block; at != layers_.end(); ++at) {
    const bool moe = model_.FindLayer(at->first) != nullptr;
    std::map<uint32_t, size_t> holders;
    size_t layers = 0;
    for (auto layer = layers_.begin(); layer != block; ++layer) {
      if (moe && model_.FindLayer(layer->first) == nullptr) continue;
      ++layers;
      for (const uint32_t name : std::set(layer->second.names.begin(), layer->second.names.end()))
        ++holders[name];
    }
    const auto& own = at->second.names;
    for (const auto& [name, count] : holders) {
      if (count < layers || std::find(own.begin(), own.end(), name) != own.end()) continue;
      // The decoder may have no layer without experts to compare with.
      if (!moe && (names_[name].routed || names_[name].after.starts_with(".ffn_"))) continue;
      findings.push_back({FindingKind::kMissing, Spell(name, at->first),
                          moe ? "one as all layers with experts have" : "one as all layers have",
                          "none"});
    }
  }
}

void LayerNames::Check(std::vector<CheckFinding>& findings) const {
  for (const auto& [kind, layers] : Kinds()) CheckKind(layers, findings);
}

}  // namespace moepack
