// From plan and GGUF view to output files: the pieces of which a node's split set is put together
// (head, trunk, routers, groups, overlay), or the whole model. No bytes move.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf.h"
#include "libshard/pack/slice.h"
#include "libshard/pack/slice_parts.h"
#include "libshard/plan/plan.h"

namespace moepack {

struct GgufSlicing {
  const GgufModel& model;
  std::string version;  // of the model, for the files' metadata
  // RecipeResult::overlay_types: types of tensors in the overlay where they differ; may be empty.
  std::span<const quant::Format* const> overlay_types;
  uint64_t alignment = kGgufDefaultAlignment;
};

// The plan without the layers whose experts the GGUF does not have: blocks for multi-token
// prediction that the conversion leaves out.
Plan PlanFor(const GgufModel& model, const Plan& plan);

// The files of a GGUF distribution, in the order of roles; tensors in the model's order. Each part
// of the trunk carries split.no, so that it can stand in the split set of any node as it is.
Result<std::vector<OutputFile>> SliceGguf(const GgufSlicing& input, const Plan& plan,
                                          const SliceOptions& options);

struct WholeGgufOptions {
  std::string stem;
  uint64_t max_part_size = 0;  // bytes; 0: one file
  uint64_t alignment = kGgufDefaultAlignment;
};
// The whole model as one file `<stem>.gguf`, or as a split set of tensor files of at most
// `max_part_size` bytes. kUnsupported for a set of more than 65535 files.
Result<std::vector<OutputFile>> WholeGguf(const GgufModel& model, const WholeGgufOptions& options);

// What a GGUF file with this metadata costs beside its tensors; split keys may be added to it
// later.
ContainerCost GgufCost(const GgufMetadata& metadata, uint64_t alignment);

// split.no, split.count and split.tensors.count as stock llama.cpp reads them from the first file
// of a set.
void SetSplitKeys(uint64_t number, uint64_t count, uint64_t tensors, GgufMetadata& metadata);

// The tensor as it is written: all of it, or the rows of `ids` of one with an expert axis.
// kUnsupported for a type without decoder or encoder, or whose experts are no whole rows.
Result<OutputTensor> EncodeTensor(const GgufTensor& tensor, const quant::Format* type);
Result<OutputTensor> EncodeExperts(const GgufTensor& tensor, const quant::Format* type,
                                   const ExpertIds& ids);

}  // namespace moepack
