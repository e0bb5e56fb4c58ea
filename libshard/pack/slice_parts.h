// Shared by the slicers of all containers: the parts of a plan, and how a part is cut into files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"

namespace moepack {

// A part of a distribution that holds experts.
struct ExpertPart {
  Role role = Role::kGroup;
  std::optional<uint32_t> group;  // for kGroup
  std::string directory;          // "groups/000"
  LayerExperts experts_by_layer;  // ids held
  std::string overlay = {};       // version, for kOverlay
};
// Returns groups (with their fill), overlays (with theirs) and remainder, as selected by the
// options.
std::vector<ExpertPart> ExpertParts(const Plan& plan, const SliceOptions& options);

// Describe a tensor of a safetensors bundle: all of it, or the experts `ids` of one that has an
// expert axis. kUnsupported if these are not whole bytes.
OutputTensor WholeTensor(const MoeModel& model, const ModelTensor& tensor);
Result<OutputTensor> CutTensor(const MoeModel& model, const ModelTensor& tensor,
                               const ExpertIds& ids);

// What the file of a part says about itself, as `__metadata__`. `model_version` is without
// revision.
std::map<std::string, std::string> SafetensorsPartMetadata(const std::string& model_version,
                                                           const ExpertPart& part,
                                                           const LayerCounts& layers);

// What a container adds to the bytes of its tensors.
struct ContainerCost {
  uint64_t alignment = 1;   // of each tensor's end
  uint64_t per_tensor = 0;  // in the header, without the name
  uint64_t per_file = 0;    // the rest of the header
};
// Distributes tensors over lists whose files have at most `limit` bytes (0: no limit). A larger
// tensor gets its own file, because tensors are never cut. Returns at least one list.
std::vector<std::vector<OutputTensor>> CutBySize(std::vector<OutputTensor> tensors, uint64_t limit,
                                                 const ContainerCost& cost = {});

// "groups/000/experts.gguf" or, with several files, "groups/000/experts-00001-of-00003.gguf".
struct PartFile {
  std::string_view directory, stem, extension;
};
std::string PartFileName(const PartFile& part, size_t number, size_t count);

}  // namespace moepack
