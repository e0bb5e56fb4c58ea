// Where the tensors of each expert are, and what it costs to read one expert from a disk.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"
#include "libshard/replay/cache_replay.h"

namespace moepack {

inline constexpr uint64_t kDiskBlock = 4096;  // what direct reads are aligned to

// Each range is extended to whole blocks. Those of one file that then touch or overlap are one
// read.
ExpertReads ReadsOf(std::vector<SourceRange> ranges);

// Layer -> for each expert, the ranges of all its tensors.
using ExpertRanges = std::map<uint32_t, std::vector<std::vector<SourceRange>>>;
// The ranges of a model with tensor data. kUnsupported for an index or config alone, whose tensors
// are not in any file.
Result<ExpertRanges> RangesOf(const MoeModel& model);

// For the layers of a trace or of statistics, in order. kMismatch if the model has a different
// number of experts in one of them; `where` is the trace, `source` the model, for messages.
Result<ExpertLayout> LayoutFor(const std::string& where, const std::string& source,
                               const ExpertRanges& ranges,
                               const std::vector<MoeLayerShape>& layers);

// The largest number of slots per layer, the same for all, for which the experts in all slots have
// at most `bytes`; layers with fewer experts hold all of theirs. No value if not even one slot each
// fits.
std::optional<uint32_t> SlotsWithin(uint64_t bytes, const ExpertLayout& layout);
// The size of `slots` slots in every layer filled with the largest experts: the memory of the
// cache.
uint64_t BytesOfSlots(uint32_t slots, const ExpertLayout& layout);

}  // namespace moepack
