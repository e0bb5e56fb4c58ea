// Turns a plan and a model into output files: for every output tensor, the source ranges that make
// it, in order. No tensor data is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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

class RefitTensors;

struct SliceOptions {
  PartSelection parts;
  // What groups hold in place of the source's tensors; null: nothing. Its files follow the model's
  // among the sources.
  const RefitTensors* refit = nullptr;
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

}  // namespace moepack
