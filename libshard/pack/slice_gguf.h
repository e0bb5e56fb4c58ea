// Turns a plan and a GGUF view into output files: either the pieces from which a node's split set
// is assembled (head, trunk, routers, groups, overlay), or the whole model. No tensor data is read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/imatrix.h"

namespace moepack {

struct GgufSlicing {
  const GgufModel& model;
  std::string version;  // of the model, for the files' metadata
  // RecipeResult::overlay_types: the types that tensors have in the overlay if they differ. May be
  // empty.
  std::span<const quant::Format* const> overlay_types;
  uint64_t alignment = kGgufDefaultAlignment;
  // The source of the model's importance; it may have separate importance for groups. Borrowed;
  // null for none.
  const Imatrix* imatrix = nullptr;
};

// The plan without layers whose experts are not in the GGUF: the conversion may leave out blocks
// for multi-token prediction.
Plan PlanFor(const GgufModel& model, const Plan& plan);

// Returns the files of a GGUF distribution in the order of roles, with tensors in the model's
// order. Each part of the trunk has split.no, so that it fits in the split set of any node
// unchanged.
Result<std::vector<OutputFile>> SliceGguf(const GgufSlicing& input, const Plan& plan,
                                          const SliceOptions& options);

struct WholeGgufOptions {
  std::string stem;
  uint64_t max_part_size = 0;  // bytes; 0: one file
  uint64_t alignment = kGgufDefaultAlignment;
  const CalibratedTensors* calibrated = nullptr;  // as in SliceOptions
};
// The whole model as one file `<stem>.gguf`, or as a split set of tensor files of at most
// `max_part_size` bytes. kUnsupported for a set of more than 65535 files.
Result<std::vector<OutputFile>> WholeGguf(const GgufModel& model, const WholeGgufOptions& options);

// Which file a tensor goes to. True for experts and for their rows and bias in the router: a node
// needs both from the same file, because both change with the group.
bool BelongsToExperts(const GgufTensor& tensor);

// What the file of a part says about itself.
struct GgufPartModel {
  std::string_view architecture, version;  // of the model, without revision
};
GgufMetadata GgufPartMetadata(const GgufPartModel& model, const ExpertPart& part,
                              const LayerCounts& layers);
// The same for a trunk file, of which a distribution has one or more.
GgufMetadata GgufTrunkMetadata(GgufMetadata part, size_t number);

// The overhead of a GGUF file with this metadata, with room for split keys.
ContainerCost GgufCost(const GgufMetadata& metadata, uint64_t alignment);

// split.no, split.count and split.tensors.count as stock llama.cpp reads them from the first file
// of a set.
void SetSplitKeys(uint64_t number, uint64_t count, uint64_t tensors, GgufMetadata& metadata);

// Describe a tensor as it is written: all of it or, for a tensor with an expert axis, the rows of
// `ids`. kUnsupported for a type without a decoder or encoder, and for experts that are not whole
// rows.
Result<OutputTensor> EncodeTensor(const GgufTensor& tensor, const quant::Format* type);
Result<OutputTensor> EncodeExperts(const GgufTensor& tensor, const quant::Format* type,
                                   const ExpertIds& ids);

}  // namespace moepack
