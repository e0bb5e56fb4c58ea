#include "libshard/pack/slice_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack {

namespace {

// Sorted like the paths of their files, because parts made by several runs are listed that way: '/'
// follows the directory, and '-' and '.' come before '/'.
void AddOverlays(const Plan& plan, std::vector<ExpertPart>& parts) {
  const size_t first = parts.size();
  for (const OverlayPlan& overlay : plan.overlays) {
    parts.push_back({Role::kOverlay, std::nullopt, OverlayDirectory(overlay.version),
                     HeldBy(overlay), overlay.version});
  }
  std::sort(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end(),
            [](const ExpertPart& a, const ExpertPart& b) {
              return a.directory + "/" < b.directory + "/";
            });
}

}  // namespace

std::vector<ExpertPart> ExpertParts(const Plan& plan, const SliceOptions& options) {
  std::vector<ExpertPart> parts;
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    if (!options.parts.WantsGroup(g)) continue;
    parts.push_back({Role::kGroup, g, Cat("groups/", ZeroPadded(g, 3)), HeldBy(plan.groups[g])});
  }
  if (options.parts.WantsOverlay()) AddOverlays(plan, parts);
  const bool remainder = options.parts.all ? options.keep_remainder : options.parts.remainder;
  if (remainder && CountIds(plan.remainder) > 0) {
    parts.push_back({Role::kRemainder, std::nullopt, "remainder", plan.remainder});
  }
  return parts;
}

std::map<std::string, std::string> SafetensorsPartMetadata(const std::string& model_version,
                                                           const ExpertPart& part,
                                                           const LayerCounts& layers) {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"moepack.model", model_version},
      {"moepack.role", std::string(RoleName(part.role))},
  };
  if (part.group) metadata["moepack.group"] = std::to_string(*part.group);
  if (part.role == Role::kOverlay) metadata["moepack.overlay"] = part.overlay;
  if (part.role != Role::kTrunk)
    metadata["moepack.experts"] = LayerExpertsToJson(part.experts_by_layer, layers).dump();
  return metadata;
}

std::vector<std::vector<OutputTensor>> CutBySize(std::vector<OutputTensor> tensors, uint64_t limit,
                                                 const ContainerCost& cost) {
  std::vector<std::vector<OutputTensor>> lists(1);
  if (limit == 0) {
    lists[0] = std::move(tensors);  // an initializer list would copy the tensors
    return lists;
  }
  uint64_t header = cost.per_file;
  uint64_t data = 0;
  for (OutputTensor& tensor : tensors) {
    const uint64_t entry = cost.per_tensor + tensor.entry.name.size();
    const uint64_t bytes = AlignUp(tensor.entry.bytes, cost.alignment);
    const uint64_t file = AlignUp(header + entry, cost.alignment) + data + bytes;
    if (file > limit && !lists.back().empty()) {
      lists.emplace_back();
      header = cost.per_file;
      data = 0;
    }
    header += entry;
    data += bytes;
    lists.back().push_back(std::move(tensor));
  }
  return lists;
}

std::string PartFileName(const PartFile& part, size_t number, size_t count) {
  const std::string stem = Cat(part.directory, part.directory.empty() ? "" : "/", part.stem);
  if (count == 1) return Cat(stem, part.extension);
  // As the files of a set are numbered on the Hugging Face Hub and by llama-gguf-split.
  return Cat(stem, "-", ZeroPadded(number, 5), "-of-", ZeroPadded(count, 5), part.extension);
}

}  // namespace moepack
