#include "manifest/document/expert_ranges.h"

#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

// Groups of a GGUF distribution have router rows beside their experts.
bool HoldsExperts(const BundleRecord& bundle, const TensorRecord& tensor) {
  if (tensor.expert_ids.empty() || !tensor.layer) return false;
  if (bundle.role == Role::kTrunk || bundle.role == Role::kRouters) return false;
  return bundle.format != "gguf" || tensor.name.find("_exps.") != std::string::npos;
}

// Packed experts are cut along axis 0, so each is one range.
void AddRanges(uint32_t file, const TensorRecord& tensor,
               std::vector<std::vector<SourceRange>>& experts) {
  const uint64_t bytes = tensor.bytes / tensor.expert_ids.size();
  for (size_t i = 0; i < tensor.expert_ids.size(); ++i) {
    std::vector<SourceRange>& ranges = experts[tensor.expert_ids[i]];
    if (!ranges.empty() && ranges[0].file != file) continue;
    ranges.push_back({file, tensor.offset + i * bytes, bytes, 0});
  }
}

}  // namespace

Result<ExpertRanges> RangesOf(const std::string& where, const Manifest& manifest) {
  ExpertRanges ranges;
  for (const auto& [layer, expert_count] : manifest.model.moe_layers)
    ranges[layer].resize(expert_count);
  for (uint32_t file = 0; file < manifest.bundles.size(); ++file) {
    for (const TensorRecord& tensor : manifest.bundles[file].tensors) {
      if (!HoldsExperts(manifest.bundles[file], tensor)) continue;
      AddRanges(file, tensor, ranges[*tensor.layer]);
    }
  }
  for (const auto& [layer, experts] : ranges) {
    for (size_t expert = 0; expert < experts.size(); ++expert) {
      if (!experts[expert].empty()) continue;
      return Error{Code::kNotFound, Cat(where, ": layer ", layer, ": expected all experts, found ",
                                        "no bundle with expert ", expert)};
    }
  }
  return ranges;
}

std::vector<MoeLayerShape> ShapesOf(const Manifest& manifest) {
  std::vector<MoeLayerShape> shapes;
  for (const auto& [layer, expert_count] : manifest.model.moe_layers) {
    const auto top_k = manifest.model.top_k.find(layer);
    shapes.push_back(
        {layer, expert_count, top_k == manifest.model.top_k.end() ? 0 : top_k->second});
  }
  return shapes;
}

}  // namespace moepack::manifest
