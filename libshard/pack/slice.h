// Turns a plan and a model into output files: for every output tensor, the source ranges that make
// it, in order. No tensor data is read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"

namespace moepack {

// Which parts of a distribution to write. Default: all.
struct PartSelection {
  bool all = true;
  bool trunk = false, overlay = false, assets = false, remainder = false;
  std::vector<uint32_t> groups;
  bool WantsTrunk() const { return all || trunk; }
  bool WantsOverlay() const { return all || overlay; }
  bool WantsAssets() const { return all || assets; }
  bool WantsGroup(uint32_t group) const;
};
// Each text is "trunk", "group:1", "overlay", "assets", "remainder", or several of them with
// commas. kInvalidArgument for anything else.
Result<PartSelection> ParseParts(const std::vector<std::string>& texts, size_t groups);

class CalibratedTensors;
class RefitTensors;

struct SliceOptions {
  PartSelection parts;
  // What groups hold in place of the source's tensors; null: nothing. Its files follow the model's
  // among the sources.
  const RefitTensors* refit = nullptr;
  // What GGUF bundles hold in place of the tensors that are neither refitted nor of another type in
  // an overlay; null: nothing. Its files follow those of the refit.
  const CalibratedTensors* calibrated = nullptr;
  // Whether all parts include the remainder; a selection names it itself.
  bool keep_remainder = false;
  uint64_t max_part_size = 0;  // bytes; 0: one file per part. A tensor is never cut.
};

// The files of a safetensors distribution: trunk first, then groups, overlays, remainder; tensors
// in source order.
Result<std::vector<OutputFile>> SliceSafetensors(const MoeModel& model, const Plan& plan,
                                                 const SliceOptions& options);

// Returns the ranges of `tensor` that hold the experts `ids` along `axis`: one per outer index and
// expert, in the order of `ids`. REQUIRES: the axis length is a multiple of `expert_count`, and
// every id is below it.
std::vector<SourceRange> SliceAxis(const TensorEntry& tensor, uint32_t axis, uint32_t expert_count,
                                   const ExpertIds& ids);

// Sets entry.offset, prefix and size of a file whose tensors have names, types, shapes and bytes;
// data starts at `start` modulo 4096, or without `start` at the offset of the first source range,
// so that a file system with shared extents can share them.
void LayOutSafetensors(OutputFile& file, const std::map<std::string, std::string>& metadata,
                       std::optional<uint64_t> start = std::nullopt);

// Shared by the slicers of all containers: the parts of a plan, and how a part is cut into files.

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
