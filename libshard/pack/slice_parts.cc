#include "libshard/pack/slice_parts.h"

#include "libshard/base/bytes.h"
#include "libshard/base/text.h"

namespace moepack {

std::vector<ExpertPart> ExpertParts(const Plan& plan, const SliceOptions& options) {
  std::vector<ExpertPart> parts;
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    if (!options.parts.WantsGroup(g)) continue;
    parts.push_back({Role::kGroup, g, Cat("groups/", ZeroPadded(g, 3)), HeldBy(plan.groups[g])});
  }
  if (!plan.overlay_version.empty() && options.parts.WantsOverlay()) {
    parts.push_back(
        {Role::kOverlay, std::nullopt, Cat("overlays/", plan.overlay_version), plan.overlay});
  }
  const bool remainder = options.parts.all ? options.keep_remainder : options.parts.remainder;
  if (remainder && CountIds(plan.remainder) > 0) {
    parts.push_back({Role::kRemainder, std::nullopt, "remainder", plan.remainder});
  }
  return parts;
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
  return Cat(stem, "-", ZeroPadded(number, 5), "-of-", ZeroPadded(count, 5), part.extension);
}

}  // namespace moepack
